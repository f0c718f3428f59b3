"""BRACE: the layer between a robot's control loop and its LLM planner."""
