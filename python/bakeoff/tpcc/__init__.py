"""TPC-C: throughput, response times and the standard's conditions (docs/reference/tpcc.md)."""
