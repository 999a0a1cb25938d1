"""The laws of the design, section 8, each in words and as a function from what was read to what does not hold."""
