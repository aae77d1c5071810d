import pytest

from bakeoff.results import manifest


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("AMD EPYC 9754 128-Core Processor", "AMD EPYC 9754 128-Core Processor"),
        ("AMD EPYC", "AMD EPYC (family 26, model 2)"),
    ],
)
def test_a_cpu_name_hidden_by_a_hypervisor_shows_family_and_model(monkeypatch, tmp_path, name, shown):
    text = f"processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: {name}\n\nprocessor\t: 1\n"
    monkeypatch.setattr(manifest, "read_fact", lambda path: text if path == "/proc/cpuinfo" else None)
    assert manifest.gather_host(tmp_path).cpu_model == shown
