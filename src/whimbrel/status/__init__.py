"""What is wrong in a cloud now, for operators: read once from its stores, with what to do about each finding."""
