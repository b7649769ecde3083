"""What results.py makes of tests that fail, fail by chance, crash and are missing: a small project of each kind."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import results

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(kinds LANGUAGES NONE)
enable_testing()
add_test(NAME Plain.Passes COMMAND true)
add_test(NAME Plain.Fails COMMAND sh -c "echo why; false")
add_test(NAME Plain.FailsOnce COMMAND sh -c "test -e once || { touch once; false; }")
add_test(NAME Plain.FailsEveryOtherTime COMMAND sh -c "if test -e other; then rm other; else touch other; false; fi")
add_test(NAME Plain.IsSkipped COMMAND sh -c "exit 77")
set_tests_properties(Plain.IsSkipped PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME Plain.IsMissing COMMAND ${CMAKE_BINARY_DIR}/nothing)
foreach(shard 0 1)
  add_test(NAME many.shard_${shard} COMMAND ${CMAKE_SOURCE_DIR}/many)
  set_tests_properties(many.shard_${shard} PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${shard}")
endforeach()
"""
PRESETS = """{"version": 6, "configurePresets": [{"name": "kinds", "generator": "Ninja", "binaryDir": "${sourceDir}/build/kinds"}],
"testPresets": [{"name": "kinds", "configurePreset": "kinds", "output": {"outputOnFailure": true}, "environment": {"KIND": "of a preset"}}]}
"""
# Stands in for a program of GoogleTest, which deals its tests out to shards and can crash.
MANY = """#!/bin/sh
tests="Many.Passes Many.Crashes Many.Fails Many.ComesBehindACrash Many.IsSkipped Many.CrashesOnce"
[ "$1" = --gtest_list_tests ] && { echo Many.; for test in $tests; do echo "  ${test#Many.}"; done; exit; }
[ "$KIND" = "of a preset" ] || exit 9
number=0 bad=0
for test in $tests; do
  case ":${GTEST_FILTER:-$test}:" in *":$test:"*) ;; *) continue ;; esac
  mine=$((number % ${GTEST_TOTAL_SHARDS:-1})) number=$((number + 1))
  [ $mine -eq ${GTEST_SHARD_INDEX:-0} ] || continue
  echo "[ RUN      ] $test"
  case $test in
  *Crashes) exit 139 ;;
  *CrashesOnce) [ -e crashed ] || { touch crashed; exit 139; }; echo "[       OK ] $test (0 ms)" ;;
  *Fails) echo "of a reason"; echo "[  FAILED  ] $test (0 ms)"; bad=1 ;;
  *IsSkipped) echo "[  SKIPPED ] $test (0 ms)" ;;
  *) echo "[       OK ] $test (0 ms)" ;;
  esac
done
exit $bad
"""


class Kinds(unittest.TestCase):
    def setUp(self):
        for name in [n for n in os.environ if n.startswith(("GTEST_", "CTEST_"))]:  # of those who run this
            del os.environ[name]
        self.back = os.getcwd()
        self.scratch = tempfile.TemporaryDirectory()
        os.chdir(self.scratch.name)
        for name, text in (("CMakeLists.txt", PROJECT), ("CMakePresets.json", PRESETS), ("many", MANY)):
            Path(name).write_text(text)
        Path("many").chmod(0o755)
        subprocess.run(["cmake", "--preset", "kinds"], check=True, stdout=subprocess.DEVNULL)

    def tearDown(self):
        os.chdir(self.back)
        self.scratch.cleanup()

    def test_faults_are_told_from_chance(self):
        report = Path("report.xml").resolve()
        subprocess.run(["ctest", "--preset", "kinds", "--output-junit", report], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts, failures = results.read("kinds", report, ())
        self.assertEqual((counts.passed, counts.skipped), (3, 2))  # Plain and Many each pass, and what comes behind a crash
        with contextlib.redirect_stdout(io.StringIO()):
            faults, flaky = results.judged(failures)
        self.assertEqual({f.name for f in faults}, {"Plain.Fails", "Plain.FailsEveryOtherTime", "Plain.IsMissing", "Many.Crashes", "Many.Fails"})
        self.assertEqual({f.name for f in flaky}, {"Plain.FailsOnce", "Many.CrashesOnce"})
        said = {f.name: f.said for f in faults}
        self.assertIn("why", said["Plain.Fails"])
        self.assertIn("of a reason", said["Many.Fails"])

    def test_many_failures_are_no_chance(self):
        once = results.Failure("kinds", "Plain.Passes", ["true"], {}, [])
        faults, flaky = results.judged([once] * (results.RUN_AGAIN_AT_MOST + 1))
        self.assertEqual((len(faults), len(flaky)), (results.RUN_AGAIN_AT_MOST + 1, 0))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
