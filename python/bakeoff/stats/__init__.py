"""Pure functions from a run directory to verdicts (docs/method.md). Imports nothing that runs a server.

The trial loop needs `epoch_estimates` and `decide` after every epoch, `choose_slice_length` after the pilot, `noise_card` and
`better_seconds` after the first epochs; everything else comes out of `analyse`.
"""
