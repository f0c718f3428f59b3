"""What the planner `openai` is made of: the wire, the stream of events, grammars, and counting."""
