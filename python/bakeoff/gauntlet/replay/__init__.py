"""The size `replay`: thousands of complete runs through the deciding code, on recorded traces and simulated laws."""

from bakeoff.gauntlet.replay import equal_arms, numbers, planted, quantiles

CHECKS = (*equal_arms.CHECKS, *planted.CHECKS, *quantiles.CHECKS, *numbers.CHECKS)
