"""Run one study from start to end: install, load, measure epochs, analyse, resume (`bakeoff.run.runner.run_study`).

Events go to a `Listener`; nothing is printed.
"""
