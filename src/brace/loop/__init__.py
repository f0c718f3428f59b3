"""The agent: a world, or a user's own loop, between the controller and the call path."""
