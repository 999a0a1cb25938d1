"""What the HTTP front ends share: requests, replies, errors, routes, versions, schemas and policy."""
