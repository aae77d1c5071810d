"""Run one study from start to end (`bakeoff.run.runner.run_study`). Events go to a `Listener`; nothing is printed."""
