"""An engine for sagas: lists of steps that survive every crash. Independent of servers and of the cloud."""
