"""Real servers: found by name, fetched once, initialised once, cloned, started, and stopped whatever happens.

    installation = install(spec, progress=callback)                    # SpecError, HostError, ServerError
    settings = settings_for(installation, spec, profile, data, ServerMemory(buffer_pool_bytes=512 << 20), connections=64)
    with ServerHouse(work_root) as house:                              # sweeps what dead bakeoffs left behind
        instance = house.create("A", installation, settings, env=..., cpus=...)   # a clone of the template
        house.start_all([instance, ...])                               # in parallel; or instance.start()
        snapshot = house.snapshot(instance, "build-0")                 # instance must be stopped: instance.stop()
        again = house.restore("A", snapshot, installation, settings, env=..., cpus=...)
    # leaving the block kills every server and removes every file

    instance: .connect() .socket_path .port .pid .address(transport) .account(transport) .start() .stop() .kill() .remove()
              .variables() .status() .version_string .error_log_tail() .ignored_settings() .data_bytes(database) .my_cnf
    remote = RemoteServer(spec, password=...)                          # same reading methods; never started or stopped
    gates.warm(instance, database, tables) -> Warmth;  gates.settle(instance, deadline_s, warmth) -> Gates;  gates.analyze(...)

The room never prints: progress goes to a callback `Progress(what, done_bytes, total_bytes)`. It imports nothing of trials or reports.
"""
