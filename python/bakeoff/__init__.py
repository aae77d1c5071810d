"""Which of these MySQL setups is faster for this workload, by how much, and how sure are we?"""
