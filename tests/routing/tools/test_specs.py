"""The one table of server tools, against what other apps and the tools themselves say."""

from accounts.models.account import SERVER_TOOLS
from routing.formats.server_tools import TOOLS
from routing.tools.registry import BUILT_IN


def test_workspaces_can_switch_off_the_tools_whose_specs_say_so() -> None:
    assert {name for name, spec in TOOLS.items() if spec.can_disable} == set(SERVER_TOOLS)


def test_every_spec_names_the_class_that_runs_the_tool() -> None:
    assert BUILT_IN.keys() == TOOLS.keys()
    for name, spec in TOOLS.items():
        assert BUILT_IN[name].__module__ == spec.maker.rpartition(".")[0]
