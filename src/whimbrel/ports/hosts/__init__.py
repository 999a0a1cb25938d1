"""What hosts provide: agents, hypervisors and their durable store."""
