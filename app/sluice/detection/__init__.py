"""What a call would do, and what a text says to the agent that reads it. It is read; nothing is run.

Pure as the core, of which it imports nothing. The core and all others come in by two doors:
call_inspection.py (`inspect_call`) and text_inspection.py (`inspect_text`), with the types of what they find
and of the libraries that they find it with. The process may give kept.py a store for what it compiles.
"""
