"""Runs a study: servers up, gates passed, engine driven, host watched, evidence written. Emits events, prints nothing."""
