"""Audit someone's benchmark: were the setups alike, and what can its numbers support?"""
