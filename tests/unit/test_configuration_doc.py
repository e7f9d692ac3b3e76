"""The page about settings lists exactly the settings there are."""

from __future__ import annotations

from pathlib import Path

from headgate.config import Setting, load_config, settings

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def table() -> str:
    """Return the table of the page, one line per setting."""
    lines = ["| key | environment | default | meaning |", "|---|---|---|---|"]
    for setting in settings():
        meaning = setting.field.description
        lines.append(
            f"| `{setting.key}` | `{setting.variable}` | {_default(setting)} | {meaning} |"
        )
    return "\n".join(lines)


def _default(setting: Setting) -> str:
    default = setting.field.default
    if default is None or default in ({}, ()):
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    # A number that is said in milliseconds has a validator that makes them.
    if setting.field.metadata and isinstance(default, int) and _is_duration(setting):
        return f"`{_duration(default)}`"
    return f"`{default}`"


def _duration(milliseconds: int) -> str:
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"


def _is_duration(setting: Setting) -> bool:
    return any(type(part).__name__ == "BeforeValidator" for part in setting.field.metadata)


def test_page_lists_every_setting_as_it_is() -> None:
    assert table() in PAGE.read_text(), "write the output of table() into docs/configuration.md"


def test_example_of_the_page_is_accepted(tmp_path: Path) -> None:
    text = PAGE.read_text()
    example = text.partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "headgate.toml"
    file.write_text(example)
    config = load_config(path=file, environment={}).config
    assert config.controller.slots == 8
    assert config.controller.database_url == str(tmp_path / "jobs.db")
    assert config.job.checkpoint_interval == 5_000
