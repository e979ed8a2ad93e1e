"""The documentation: links lead somewhere, every page has a place, and every block of code on it is checked.

What a block is checked for goes by its language. Shell: every `mac` command has the options it is called with. Python: it compiles, and
every name of `mac` it uses exists. TOML: it parses. C, C++ and Fortran: every `mac_...` it names is in the interface. Blocks marked
`<!-- run -->` are run by test_pages.py, the examples by tests of their own. Commands that are not stand before a comment
`<!-- not run: REASON -->` or `<!-- checked by: ... -->`.
"""

import ast
import contextlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import mac

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md"), ROOT / "README.md"])
NOTE = re.compile(r"\s*<!-- (not run|checked by|run)(: [^>]+)? -->")
# A program is called by these names on the site.
CALL = re.compile(r"^\s*(?:[A-Z_]+=\S+ )*(?:build/mac|mac|\"\$mac\")\s+(.*)$")


def blocks(text):
    """(language, text of the block, note behind it, line) of all fenced and indented blocks."""
    found = []
    for match in re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$|(?:(?<=\n\n)|\A)((?:^    [^\n]*\n(?:\n(?=    ))*)+)", text, re.M | re.S):
        language = match[1] if match[2] is not None else "bash"
        body = match[2] if match[2] is not None else re.sub(r"^    ", "", match[3], flags=re.M)
        note = NOTE.match(text, match.end())
        found.append((language or "text", body, note and note[1], text.count("\n", 0, match.start()) + 1))
    return found


ALL = [(page, *block) for page in PAGES for block in blocks(page.read_text())]


def of(*languages):
    chosen = [block for block in ALL if block[1] in languages]
    return pytest.mark.parametrize("page,language,text,note,line", chosen, ids=[f"{b[0].relative_to(ROOT)}:{b[4]}" for b in chosen])


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


@pytest.fixture(scope="session")
def options():
    """The long options of a command, by `--help`."""
    known = {}

    def look(*words):
        if words not in known:
            printed = run(os.environ["MAC_PROGRAM"], *words, "--help")
            known[words] = None if printed.returncode else set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", printed.stdout))
        return known[words]

    return look


def test_links_lead_somewhere_and_every_page_has_a_place():
    checked = run(sys.executable, ROOT / "scripts/docs", "--check")
    assert checked.returncode == 0, checked.stderr


def test_a_dead_link_is_found(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for folder in ["examples", "zoo"]:
        (tmp_path / folder).mkdir()
    for name in ["zoo/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "mkdocs.yml"]:
        (tmp_path / name).write_text("" if name != "mkdocs.yml" else (ROOT / name).read_text())
    (tmp_path / "docs/new.md").write_text("# New\n\n[nothing](nowhere.md) [no heading](ideas.md#nonsense)\n")
    checked = run(sys.executable, tmp_path / "scripts/docs", "--check")
    assert checked.returncode == 1
    for sentence in ["docs/new.md: nowhere.md", "ideas.md#nonsense: there is no such heading", "new.md has no place in the navigation"]:
        assert sentence in checked.stderr


def shell_lines(text):
    """Whole commands: continued lines joined, comments and prompts gone."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        for part in re.split(r"&&|\|(?!\|)|;", re.sub(r"(^|\s)#.*$", "", line)):
            yield re.sub(r"^\s*\$ ", "", part)


@of("bash", "sh", "console", "shell")
def test_commands_have_the_options_they_are_called_with(page, language, text, note, line, options):
    for command in shell_lines(text):
        call = CALL.match(command)
        if not call or not re.match(r"[a-z]", call[1]):
            continue
        words = call[1].split()
        known = options(*words[:2]) if words[0] in ("bench", "diagnose") and len(words) > 1 and words[1] in ("step", "train", "memory") else options(words[0])
        if known is None:
            assert ":" in words[0] or words[0] in ("is", "says", "gains"), f"there is no command mac {words[0]}"  # output, not a command
            continue
        for option in re.findall(r"(?<!\S)(--[a-z][\w-]*)", call[1]):
            assert option in known, f"mac {words[0]} has no {option}"


@of("python")
def test_python_compiles_and_uses_names_that_exist(page, language, text, note, line):
    tree = ast.parse(re.sub(r", \.\.\.(?=[})\]])", "", text))  # "and so on"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mac":
            assert hasattr(mac, node.attr), f"there is no mac.{node.attr}"


@of("toml")
def test_toml_parses(page, language, text, note, line):
    tomllib.loads(text)


HEADERS = {
    "c": ["mac.h", "mac_cuda.h", "plugin.h"], "cpp": ["mac.h", "mac_cuda.h", "plugin.h"], "fortran": [],
}  # fmt: skip


@of("c", "cpp", "fortran")
def test_code_names_what_the_interface_has(page, language, text, note, line):
    interface = "".join((ROOT / "include/mac" / name).read_text() for name in HEADERS[language])
    if language == "fortran":
        interface = "".join(path.read_text() for path in (ROOT / "bindings/fortran").glob("*.f90")) + (ROOT / "include/mac/plugin.h").read_text()
    text = re.sub(r"//[^\n]*|/\*.*?\*/|![^\n]*|\"[^\"\n]*\"|<[^>\n]*>", "", text, flags=re.S)
    for name in re.findall(r"\bmac_\w+|\bMAC_\w+", text, re.I if language == "fortran" else 0):
        assert re.search(rf"\b{name}\b", interface, re.I), f"{name} is not in the interface"


def test_every_block_of_commands_is_run_or_says_why_not():
    """The tutorial is run as a whole (test_pages.py); the examples' folders are built and run by tests of their own."""
    told = [ROOT / "docs/tutorial.md", *(ROOT / "examples").glob("*/README.md")]
    assert [f"{page.relative_to(ROOT)}:{line}" for page, language, _, note, line in ALL if language in ("bash", "sh") and not note and page not in told] == []


def test_whoever_checks_a_block_is_there():
    for page in PAGES:
        for path in re.findall(r"<!-- checked by: (tests/[\w/.]+)", page.read_text()):
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_blocks_are_of_a_kind_that_is_checked():
    known = {"bash", "sh", "console", "shell", "python", "toml", "c", "cpp", "fortran", "text", "json", "cmake", "csv", "mermaid"}
    assert [f"{page.relative_to(ROOT)}:{line}: {language}" for page, language, _, note, line in ALL if language not in known and not note] == []


def test_the_first_half_of_the_demo_runs(tmp_path):
    """What *Start here* and README promise to print, from the study that they name, scaled down."""
    text = (ROOT / "experiments/zoo/burgers.toml").read_text().replace("../../zoo", str(ROOT / "zoo"))
    text = text.replace("trajectories = 50", "trajectories = 4").replace("horizon = 20.0", "horizon = 2.0")
    (tmp_path / "study.toml").write_text(text)
    result = run(os.environ["MAC_PROGRAM"], "run", tmp_path / "study.toml", "-o", tmp_path / "run", "--quiet", "--no-report")
    assert result.returncode == 0, result.stderr
    assert re.search(r"^verdict: mac: [\d.]+ times better than no closure on test data over \[0,2\]", result.stdout, re.M)
    demo = (ROOT / "scripts/demo").read_text()
    assert "experiments/zoo/burgers.toml" in demo and "experiments/burgers.toml" in demo
    for page in ["README.md", "docs/index.md"]:
        assert "make demo" in (ROOT / page).read_text()


def versions():
    read = lambda name, pattern: re.search(pattern, (ROOT / name).read_text(), re.M)[1]
    return {
        "CMakeLists.txt": read("CMakeLists.txt", r"project\(mac VERSION ([\d.]+)"),
        "CHANGELOG.md": read("CHANGELOG.md", r"^## ([\d.]+)"),
        "CITATION.cff": read("CITATION.cff", r"^version: ([\d.]+)"),
        "debian/changelog": read("debian/changelog", r"^mac \(([\d.]+)\)"),
        "packaging/spack": read("packaging/spack/packages/mac/package.py", r"newest = \"([\d.]+)\""),
    }


def test_one_version_everywhere():
    assert len(set(versions().values())) == 1, versions()


def test_the_spack_recipe_is_of_this_clone_and_of_options_that_exist(monkeypatch):
    """Without Spack: its words do nothing here but remember what they were called with."""
    called = []
    words = types.ModuleType("spack.package")
    for word in ["license", "version", "variant", "depends_on", "generator", "extends"]:
        setattr(words, word, lambda *given, word=word, **more: called.append((word, *given, more)))
    words.when = lambda condition: contextlib.nullcontext()
    words.CMakePackage = type("CMakePackage", (), {"define": staticmethod(lambda name, value: name), "define_from_variant": staticmethod(lambda name, variant: name)})
    words.CudaPackage = type("CudaPackage", (), {})
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", words)
    recipe = runpy.run_path(str(ROOT / "packaging/spack/packages/mac/package.py"))["Mac"]
    assert recipe.git == ROOT.as_uri() and ("version", "main", {"branch": "main"}) in called
    cmake = "".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")])
    for option in recipe().cmake_args():
        assert re.search(rf"\b{option}\b", cmake), option


@pytest.mark.skipif(not (shutil.which("mkdocs") and shutil.which("doxygen")), reason="there is no mkdocs or no Doxygen")
def test_the_site_is_built():
    built = run(sys.executable, ROOT / "scripts/docs")
    assert built.returncode == 0, built.stderr
    for page in ["index.html", "ideas.html", "experiments.html", "examples/01-command-line.html", "zoo/burgers-mac.html"]:
        text = (ROOT / "build/site" / page).read_text()
        assert "https://fonts" not in text and "cdn." not in text  # offline
        script = re.search(r'script src="([./]*search/local.js)"', text)[1]  # pages that are opened from a folder can be searched
        assert (ROOT / "build/site" / page).parent.joinpath(script).read_text().startswith("__search = ")
    assert "<code>cli</code>" in (text := (ROOT / "build/site/architecture.html").read_text()) and "graph BT" not in text  # the rooms, as a table
    assert re.search(r'href="api/html/files.html"', (ROOT / "build/site/headers.html").read_text())
    for header, name in [("mac_8h", "mac_step"), ("mac__cuda_8h", "mac_device_state_create"), ("runtime__state_8hpp", "State"), ("plugin_8h", "mac_plugin_system")]:
        assert name in (ROOT / f"build/site/api/html/{header}.html").read_text(), header
