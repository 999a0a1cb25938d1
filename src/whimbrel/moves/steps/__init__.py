"""The steps that moves are made of, by the thing that they touch. Each obeys the laws in saga.step."""
