"""The dashboard: a page that uses the API with the token of its user, and what it needs beside the API."""
