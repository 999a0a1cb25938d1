"""Words of the project: values, states and errors. Floor 0: sees nothing else of Whimbrel."""
