"""Pure functions from a run directory to verdicts (docs/method.md). Imports nothing that runs a server.

What others call:

- `slice_length.choose_slice_length` after a cell's pilot,
- `estimate.epoch_estimates` and `stopping.decide` after every epoch,
- `noise.noise_card` and `noise.better_seconds` after the first three,
- `analysis.analyse` for everything that a report says (`model.Analysis`),
- `settings.differences` for the table of settings.
"""
