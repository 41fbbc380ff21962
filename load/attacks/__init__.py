"""Attacks on the gates' guarantees: programs that try to get round them and print what they tried.

`python -m load.attacks` runs all of them, `python -m load.attacks caller_words` one. Each attack is one
module that holds a `run(extent)`; its docstring says what an attacker wants. The tests run the short form.
Attacks on gates that stand beside the tests of the gate are run from there (known_ways.py).
"""
