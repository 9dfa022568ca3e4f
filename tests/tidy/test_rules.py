"""Every house rule, on the whole repository; and each rule on a planted violation, which it must find."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import rules
from rules import ROOT


def violations(check, paths):
    """All messages of a rule over files, as `path:message`."""
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(ROOT)}:{message}" for message in check(path, text)]
    return found


class Repository(unittest.TestCase):
    """The repository keeps the rules."""

    def check_files(self, check, paths):
        paths = list(paths)
        self.assertTrue(paths, "no file was checked")
        found = violations(check, paths)
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_includes_flow_one_way(self):
        self.check_files(rules.check_includes, rules.code_files(suffixes=rules.CPP_SUFFIXES))

    def test_contract_path_is_pure(self):
        self.check_files(rules.check_contract_path, rules.code_files(suffixes=rules.CPP_SUFFIXES))

    def test_no_fast_math(self):
        sources = (path for path in rules.code_files() if "tidy" not in path.parts)
        self.check_files(rules.check_fast_math, [*rules.build_files(), *sources])

    def test_files_are_short(self):
        self.check_files(rules.check_file_length, rules.code_files())

    def test_functions_are_short(self):
        self.check_files(rules.check_function_length, rules.code_files())

    def test_style(self):
        self.check_files(rules.check_style, rules.code_files())

    def test_architecture_names_every_folder(self):
        self.assertEqual(list(rules.check_architecture_names_folders()), [])

    def test_links_of_the_documentation(self):
        self.assertEqual(list(rules.check_links()), [])

    def test_licence(self):
        self.assertEqual(list(rules.check_licence()), [])


class IsaObjects(unittest.TestCase):
    """No object file for a newer instruction set defines a symbol that the linker could give to another file."""

    def check_build(self, name, nm, expected):
        build = ROOT / name
        if not (build / "compile_commands.json").exists():
            self.skipTest(f"{name} is not built")
        objects = [path for path in rules.isa_objects(build) if path.exists()]
        if not objects and expected:
            self.skipTest(f"{name} has no object file yet")
        found = [f"{path.name}: {symbol}" for path in objects for symbol in rules.weak_symbols(path, nm)]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_release(self):
        self.check_build("build", "nm", expected=True)

    def test_aarch64(self):
        if not shutil.which("aarch64-linux-gnu-nm"):
            self.skipTest("no binutils for Arm")
        self.check_build("build-aarch64", "aarch64-linux-gnu-nm", expected=False)

    def test_finds_a_planted_weak_symbol(self):
        if not shutil.which("g++"):
            self.skipTest("no compiler")
        with tempfile.TemporaryDirectory() as scratch:
            source, target = pathlib.Path(scratch, "planted.cc"), pathlib.Path(scratch, "planted.o")
            source.write_text("inline int shared(int a) { return a + 1; }\nint use(int a) { return shared(a); }\n")
            subprocess.run(["g++", "-O0", "-c", str(source), "-o", str(target)], check=True)
            self.assertEqual(list(rules.weak_symbols(target)), ["shared(int)"])
            source.write_text("static inline int own(int a) { return a + 1; }\nint use(int a) { return own(a); }\n")
            subprocess.run(["g++", "-O0", "-c", str(source), "-o", str(target)], check=True)
            self.assertEqual(list(rules.weak_symbols(target)), [])


class Planted(unittest.TestCase):
    """Each rule finds a violation, and passes the same thing written properly."""

    def both(self, check, name, bad, good):
        path = ROOT / name
        self.assertTrue(list(check(path, bad)), f"not found: {bad!r}")
        self.assertEqual(list(check(path, good)), [])

    def test_includes(self):
        def check(name, bad, good):
            self.both(rules.check_includes, name, bad, good)

        check("src/kernels/a.cc", '#include "ops/linear.h"', '#include "numerics/fma32.h"')
        check("src/numerics/a.h", '#include "kernels/table.h"', '#include "core/check.h"')
        check("src/model/a.cc", '#include "engine/engine.h"', '#include "ops/linear.h"')
        check("src/engine/a.cc", '#include "text/text.h"', '#include "model/model.h"')
        check("src/api/a.cc", '#include "server/http/http.h"', '#include "fetch/pull.h"')
        check("src/server/a.cc", '#include "engine/engine.h"', '#include "eadem/service.h"')
        check("include/eadem/engine.h", '#include "engine/engine.h"', '#include "eadem/request.h"')
        self.assertTrue(list(rules.check_includes(ROOT / "src/attic/a.cc", '#include "core/check.h"')))

    def test_contract_path(self):
        bad_lines = [
            "x = std::exp(y);",
            "x = expf(y);",
            "x = __builtin_logf(y);",
            "s = std::accumulate(a, b, 0.0f);",
            "s = std::reduce(a, b);",
            "atomicAdd(&s, x);",
            "std::atomic<float> s;",
            "s = _mm512_reduce_add_ps(v);",
            "s = vaddvq_f32(v);",
            "r = _mm256_rsqrt_ps(v);",
            "r = _mm512_rcp14_ps(v);",
            "auto t = std::chrono::steady_clock::now();",
            "std::mt19937 generator;",
            "#pragma omp parallel for",
        ]
        good = '// std::exp(x) is not ours\nx = numerics::exp(y); m.log(2); const char* s = "exp(x)"; y = std::sqrt(x);'
        for bad in bad_lines:
            self.both(rules.check_contract_path, "src/kernels/cpu/a.cc", bad, good)
        self.assertEqual(list(rules.check_contract_path(ROOT / "src/cli/a.cc", "x = std::exp(y);")), [])

    def test_fast_math(self):
        for bad in ["add_compile_options(-ffast-math)", "-Ofast", "-ffp-contract=fast", "--use_fast_math"]:
            self.both(
                rules.check_fast_math, "CMakeLists.txt", bad, "add_compile_options(-ffp-contract=off -fno-fast-math)"
            )

    def test_lengths(self):
        self.both(rules.check_file_length, "src/core/a.h", "\n" * 801, "\n" * 800)
        body = "  x += 1;\n"
        bad = "namespace n {\nvoid f(int x) {\n" + body * 70 + "}\n}\n"
        good = (
            "namespace n {\nclass C {\n"
            + "  int g(int x) const { return x; }\n" * 90
            + "};\n"
            + "void f() {\n"
            + body * 60
            + "}\n}\n"
        )
        self.both(rules.check_function_length, "src/core/a.cc", bad, good)
        member = "struct S {\n  S(int a)\n      : a_(a) {\n" + body * 70 + "  }\n};\n"
        self.both(rules.check_function_length, "src/core/a.cc", member, good)
        self.both(rules.check_function_length, "tests/a.py", "def f():\n" + "    x = 1\n" * 70, "def f():\n    pass\n")

    def test_style(self):
        wide = "x" * 121
        for bad in ["// TO" + "DO: later", "\tint x;", "int x; ", wide]:
            self.both(rules.check_style, "src/core/a.h", bad, "int x;\n" + "x" * 120)

    def test_folders_and_licence(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            (root / "src" / "attic").mkdir(parents=True)
            self.assertTrue(list(rules.check_architecture_names_folders(root)))
            self.assertTrue(list(rules.check_licence(root)))
            (root / "ARCHITECTURE.md").write_text("`src/attic/` is old. See [it](src/attic/none.md).")
            self.assertTrue(list(rules.check_links(root)))
            (root / "ARCHITECTURE.md").write_text("`src/attic/` is old. See [it](src/attic), [that](https://x.org).")
            self.assertEqual(list(rules.check_links(root)), [])
            (root / "LICENSE").write_text("Apache License")
            self.assertEqual(list(rules.check_architecture_names_folders(root)), [])
            self.assertEqual(list(rules.check_licence(root)), [])


if __name__ == "__main__":
    unittest.main()
