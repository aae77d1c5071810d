"""Add arms to a search while it runs: install them, and load their data when it is first needed."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError
from bakeoff.results import RunDirectory
from bakeoff.run.arms import download_reporter, prepare_arms
from bakeoff.run.epoch import Interrupted, broken_off, discards_epoch
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.loading import Loader
from bakeoff.run.resume import check_setups, setup_digests
from bakeoff.search.model import search_of
from bakeoff.servers import ServerMemory
from bakeoff.spec import Study


@dataclass(frozen=True)
class Joining:
    """Prepares and loads the arms that join a study."""

    memory: ServerMemory
    loader: Loader  # its engine is closed
    run: RunDirectory
    reloads: set[str] = field(default_factory=set)  # earlier loads that must be made again; removed once made

    def with_arm(self, tools: EpochTools, study: Study) -> EpochTools:
        """Install the study's last arm and return the tools with it."""
        alone = study.with_arms(study.arms[-1:])
        reporter = download_reporter(tools.listener, tools.stop)
        setups = prepare_arms(alone, self.memory, passwords={}, on_progress=reporter, stop=tools.stop)
        check_setups(self.run, setup_digests(setups))
        return replace(tools, study=study, setups=(*tools.setups, *setups))

    def load(self, tools: EpochTools, arms: Sequence[str], build: int) -> tuple[str, float]:
        """Load what these arms lack of a build into the tools' snapshots.

        Returns why an arm cannot be loaded, which discards the epoch, and the wall seconds of repeated loads.
        """
        needed = [setup for setup in tools.setups if setup.arm.name in arms]
        if search_of(tools.study).settings:
            kept = {setup.load_key for setup in (*tools.setups[:2], *needed)}
            for key in [key for key in tools.snapshots if key[0] not in kept]:
                shutil.rmtree(tools.snapshots.pop(key).path, ignore_errors=True)
        reload_s = 0.0
        for setup in needed:
            if (setup.load_key, build) in tools.snapshots:
                continue
            began_s, name = time.monotonic(), f"{setup.arm.name}-{build}"
            try:
                with Engine(stop=tools.stop, on_log=tools.listener.note) as engine:
                    loader = replace(self.loader, study=tools.study, engine=engine)
                    tools.snapshots.update(loader.load_further(setup, build, setups=tools.setups))
            except KeyboardInterrupt:
                raise Interrupted from None
            except BakeoffError as error:
                if broken_off(tools.stop):
                    raise Interrupted from None
                if not discards_epoch(error):
                    raise
                return str(error), reload_s
            if name in self.reloads:
                self.reloads.remove(name)
                reload_s += time.monotonic() - began_s
        return "", reload_s
