"""Pure functions from the epochs of a run to its verdicts (docs/method.md). Imports nothing that runs a server.

- `slice_length.choose_slice_length` after a cell's pilot,
- `estimate.epoch_estimates` and `stopping.decide` after every epoch,
- `resolution.noise_card` and `resolution.better_seconds` after the first three,
- `analysis.analyse` for everything that a report shows (`model.Analysis`),
- `differences.differences` for the table of settings.
"""
