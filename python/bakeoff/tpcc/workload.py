"""TPC-C as a kind of workload: its tables come in warehouses."""

from bakeoff.plan.workloads import OptionPairs, Options, WorkloadKind, stem, whole_number

BUNDLED = "tpcc"
_BYTES_PER_WAREHOUSE = 110 * 2**20  # with all indexes in InnoDB (docs/reference/tpcc.md)


class TpccKind(WorkloadKind):
    """A script whose name begins with `tpcc`: the bundled one, or sysbench-tpcc's."""

    feature = "tpcc"
    sized_by = ()

    def owns(self, script: str) -> bool:
        return stem(script).startswith("tpcc")

    def sizes(self, options: Options) -> dict[str, int]:
        warehouses = whole_number(options.get("warehouses"), 0) or whole_number(options.get("scale"), 10)
        return {"tables": whole_number(options.get("tables"), 1), "warehouses": warehouses}

    def loaded_bytes(self, script: str, options: Options) -> int:
        sizes = self.sizes(options)
        return sizes["tables"] * sizes["warehouses"] * _BYTES_PER_WAREHOUSE

    def small_options(self, script: str) -> OptionPairs:
        return (("scale", 2),) if script == BUNDLED else ()  # other scripts may not have the option


WORKLOAD = TpccKind()
