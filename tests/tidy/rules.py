"""The house rules that a machine can check. Each rule is a function of one file (or folder) that yields messages.

Standard library only, so that the pre-commit hook needs no installation. test_rules.py runs every rule on the
repository and on a planted violation.
"""

import ast
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CODE_FOLDERS = ("src", "include", "tests", "bench", "examples", "rust", "python", "scripts")
CODE_SUFFIXES = {".h", ".cc", ".inc", ".cu", ".cuh", ".py", ".rs"}
CPP_SUFFIXES = {".h", ".cc", ".inc", ".cu", ".cuh"}
SKIPPED_FOLDERS = {"target", "__pycache__", "node_modules", "corpus", "data", "fixtures"}

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 70
MAX_WIDTH = 120

# What a folder of src/ may include besides itself (ARCHITECTURE.md, "Includes flow one way").
_CORE = {"core"}
_NUMERICS = _CORE | {"numerics"}
_KERNELS = _NUMERICS | {"kernels"}
_OPS = _KERNELS | {"plan", "weights", "ops"}
_MODEL = _OPS | {"model"}
_ENGINE = _MODEL | {"sampler", "engine"}
_API = _ENGINE | {"text", "fetch", "contract", "api"}
MAY_INCLUDE = {
    "core": _CORE,
    "numerics": _CORE,
    "kernels": _NUMERICS,
    "plan": _KERNELS,
    "weights": _KERNELS,
    "ops": _OPS,
    "model": _OPS,
    "sampler": _KERNELS | {"ops", "plan"},
    "engine": _ENGINE,
    "text": _CORE,
    "fetch": _CORE,
    "contract": _ENGINE | {"text"},
    "api": _API,
    "audit": _API | {"audit"},
    "cli": _API | {"audit", "server"},
    "server": {"core", "text", "contract", "api", "server"},
}

# The contract path: what computes bits. Nothing there may depend on a C library, a lane count, an order of arrival,
# or a clock.
CONTRACT_FOLDERS = {"numerics", "kernels", "plan", "ops", "model", "sampler"}
_LIBM = (
    "exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot"
    "|tgamma|lgamma"
)
FORBIDDEN = [
    (
        re.compile(rf"\bstd::(?:{_LIBM})f?\s*\("),
        "a function of the C library, whose bits differ between machines; use src/numerics",
    ),
    (
        re.compile(rf"(?<![\w:.>])(?:{_LIBM})f?\s*\("),
        "a function of the C library, whose bits differ between machines; use src/numerics",
    ),
    (
        re.compile(rf"\b__builtin_(?:{_LIBM})[fl]?\s*\("),
        "a function of the C library, whose bits differ between machines",
    ),
    (
        re.compile(r"\bstd::(?:accumulate|reduce|transform_reduce|inner_product)\b"),
        "a sum whose order is not written out",
    ),
    (
        re.compile(r"\batomicAdd\b|\batomic<\s*(?:float|double)\s*>"),
        "a floating-point atomic: sums in order of arrival",
    ),
    (
        re.compile(r"\b_mm\d*_(?:mask_)?reduce_\w+_p[sd]\b|\bvaddvq?_f(?:32|64)\b"),
        "a lane sum of the machine's own width",
    ),
    (
        re.compile(r"\b_mm\d*_\w*(?:rsqrt|rcp)\w*_[ps]s\b|\bvr(?:sqrt|ecp)[es]q?_f32\b"),
        "an approximation that differs between machines",
    ),
    (re.compile(r"\bstd::chrono\b|\bclock_gettime\b|\b__rdtscp?\b"), "a clock: nothing may be chosen by timing"),
    (
        re.compile(r"\bstd::(?:random_device|mt19937(?:_64)?)\b|(?<![\w:])s?rand\s*\("),
        "randomness outside the request's own Philox key",
    ),
    (re.compile(r"#\s*pragma\s+omp\b"), "OpenMP: work is cut by src/plan and run by the thread pool"),
]
FAST_MATH = re.compile(
    r"(?<!no-)\b(?:ffast-math|Ofast|funsafe-math-optimizations|fassociative-math|use_fast_math"
    r"|ffp-contract=(?:fast|on))\b"
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")  # tidy: allow


def code_files(root=ROOT, suffixes=CODE_SUFFIXES):
    """Every code file below the known folders, in a stable order."""
    for folder in CODE_FOLDERS:
        for where, folders, names in os.walk(root / folder):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("."))
            for name in sorted(names):
                path = pathlib.Path(where) / name
                if path.suffix in suffixes:
                    yield path


def build_files(root=ROOT):
    """CMake files and scripts: where compiler flags are written."""
    yield from (path for path in [root / "CMakeLists.txt", root / "CMakePresets.json", root / "dev"] if path.exists())
    for folder in ("cmake", *CODE_FOLDERS):
        yield from sorted((root / folder).rglob("CMakeLists.txt"))
        yield from sorted((root / folder).rglob("*.cmake"))


def source_folder(path, root=ROOT):
    """The folder of src/ that a file belongs to, or None."""
    parts = path.relative_to(root).parts
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def blank_comments(text):
    """C++ text with comments and the insides of literals replaced by spaces; line numbers stay."""
    pattern = re.compile(
        r'R"(?P<d>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=d)"|//[^\n]*|/\*(?:.|\n)*?\*/'
        r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    )

    def blank(match):
        found = match.group(0)
        if found.startswith("//") or found.startswith("/*"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]

    return pattern.sub(blank, text)


def lines_matching(pattern, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.search(line)
        if match:
            yield number, match.group(0)


def check_includes(path, text, root=ROOT):
    """Includes flow one way; what a folder may not include, it may not know."""
    folder = source_folder(path, root)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
        if not match or match.group(1) == "eadem":
            continue
        target = match.group(1)
        if folder is None:
            if path.relative_to(root).parts[0] == "include":
                yield f"{number}: the public header includes the private folder {target}/"
        elif folder not in MAY_INCLUDE:
            yield f"{number}: src/{folder} has no place in MAY_INCLUDE (tests/tidy/rules.py)"
        elif target != folder and target not in MAY_INCLUDE[folder]:
            yield f"{number}: src/{folder} may not include src/{target}"


def check_contract_path(path, text, root=ROOT):
    """Nothing on the contract path may compute bits that depend on the machine."""
    if source_folder(path, root) not in CONTRACT_FOLDERS:
        return
    plain = blank_comments(text)
    for pattern, reason in FORBIDDEN:
        for number, found in lines_matching(pattern, plain):
            yield f"{number}: '{found.strip()}' is {reason}"


def check_fast_math(path, text):
    """No flag that lets a compiler reorder or contract, in any build file or pragma."""
    for number, found in lines_matching(FAST_MATH, re.sub(r"#\s*error.*", "", text)):
        yield f"{number}: {found}"


def check_file_length(path, text):
    count = len(text.splitlines())
    if count > MAX_FILE_LINES:
        yield f"{count} lines; the limit is {MAX_FILE_LINES}"


def check_style(path, text):
    """No unfinished business, no tabs, no trailing blanks, no line wider than the limit."""
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line) and "tidy: allow" not in line:
            yield f"{number}: unfinished business"
        if "\t" in line:
            yield f"{number}: a tab"
        if line != line.rstrip():
            yield f"{number}: trailing blanks"
        if len(line) > MAX_WIDTH:
            yield f"{number}: {len(line)} columns; the limit is {MAX_WIDTH}"


_NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|union|enum|extern)\b")


def cpp_functions(text):
    """(first line, last line, head) of each function body that is not inside another; a heuristic, by braces."""
    plain = re.sub(
        r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), blank_comments(text), flags=re.M
    )
    line, head_start, stack = 1, 0, []
    start = None
    for position, character in enumerate(plain):
        if character == "\n":
            line += 1
        elif character == "{":
            head = re.sub(r"\s+", " ", plain[head_start:position]).strip()
            head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head)
            head = re.sub(r"^template\s*<[^{}]*?>\s*(?=struct|class|union)", "", head)
            is_function = start is None and ")" in head and not _NOT_A_FUNCTION.match(head) and not head.endswith("=")
            if is_function:
                start = (line, len(stack), head)
            stack.append(is_function)
            head_start = position + 1
        elif character == "}" and stack:
            stack.pop()
            if start and len(stack) == start[1]:
                yield start[0], line, start[2]
                start = None
            head_start = position + 1
        elif character == ";":
            head_start = position + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno, node.name


def check_function_length(path, text):
    functions = (
        python_functions(text) if path.suffix == ".py" else cpp_functions(text) if path.suffix in CPP_SUFFIXES else []
    )
    for first, last, head in functions:
        length = last - first + 1
        if length > MAX_FUNCTION_LINES:
            yield f"{first}: a function of {length} lines, the limit is {MAX_FUNCTION_LINES}: {head[-60:]}"


def check_architecture_names_folders(root=ROOT):
    """ARCHITECTURE.md says a word about every folder of src/."""
    text = (root / "ARCHITECTURE.md").read_text() if (root / "ARCHITECTURE.md").exists() else ""
    for folder in sorted(p.name for p in (root / "src").iterdir() if p.is_dir()):
        if f"src/{folder}/" not in text:
            yield f"ARCHITECTURE.md does not name src/{folder}/"


def check_links(root=ROOT):
    """Relative links of the documentation lead to something."""
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            if not re.match(r"\w+:", target) and not (path.parent / target).exists():
                yield f"{path.relative_to(root)}: {target} does not exist"


def check_licence(root=ROOT):
    path = root / "LICENSE"
    if not path.exists() or "Apache License" not in path.read_text():
        yield "LICENSE must hold the Apache License 2.0"


def isa_objects(build):
    """Object files of src/ compiled for more than the baseline, from a build folder's compile_commands.json."""
    commands = json.loads((build / "compile_commands.json").read_text())
    for entry in commands:
        if ROOT / "src" not in pathlib.Path(entry["directory"], entry["file"]).parents:
            continue  # a test program is linked for its own machine
        if re.search(r"\s-m(?:avx|fma|f16c|amx|arch=)", entry.get("command", "")):
            yield (pathlib.Path(entry["directory"]) / entry["output"]) if "output" in entry else object_of(entry)


def object_of(entry):
    """The object file of a compile command of older CMakes, which do not write `output`."""
    match = re.search(r"\s-o\s+(\S+)", entry["command"])
    return pathlib.Path(entry["directory"]) / match.group(1)


def weak_symbols(object_file, nm="nm"):
    """Defined symbols that a linker may replace by another file's copy, which may be compiled for a newer machine."""
    listing = subprocess.run([nm, "-C", "--defined-only", str(object_file)], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        match = re.match(r"[0-9a-fA-F]*\s+([WwVvu])\s+(.*)", line)
        if match and not match.group(2).startswith("DW.ref."):
            yield match.group(2)
