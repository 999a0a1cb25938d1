"""What the project needs from outside, as Protocols. Floor 1: sees the words only."""
