"""TPC-C: throughput, response times and conditions of the specification (docs/tpcc.md)."""
