"""Makes the recordings beside it by running the real tools: `python record.py [TOOL ...]`.  README.md names them.

A tool that is not on this machine is left out, and said to be.  Each runs in a folder of its own, which stands as
`/src/app` in what is kept.  Jest and Vitest come from npm's registry, the rest is what the machine has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
OUT = ">out"  # a file that is kept as `TOOL.CASE.NAME`

UNITTEST = {
    "sums.py": """\
import unittest

class Sums(unittest.TestCase):
    def test_one(self):
        self.assertEqual(1 + 1, 2)

    def test_two(self):
        '''A line that tells what it is about.'''
        self.assertEqual(1 + 1, 3)

    def test_three(self):
        raise ValueError("FAIL: not_a_test (at.All)")

    @unittest.skip("not now")
    def test_four(self):
        pass

    @unittest.expectedFailure
    def test_five(self):
        self.assertEqual(1, 2)

    def test_six(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertNotEqual(n, 1)
""",
    "orders.py": """\
import unittest

class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError("no database")

    def test_none(self):
        pass
""",
    "good.py": """\
import unittest

class Good(unittest.TestCase):
    def test_a(self):
        print("... ok")

    def test_b(self):
        pass
""",
}

JAVASCRIPT = {
    "package.json": '{"name": "app", "private": true, "type": "module"}\n',
    "sums.test.js": """\
describe("sums", () => {
  test("adds two numbers", () => { expect(1 + 1).toBe(2); });
  test("adds › three > numbers", () => { console.log("  ● not › a test"); expect(1 + 1).toBe(3); });
  describe("of texts", () => {
    test("throws", () => { throw new TypeError("no text"); });
    test.skip("is left out", () => {});
  });
  test.todo("is to be written");
});
""",
    "good.test.js": """\
test.each([1, 2, 3])("holds for %i", (n) => { expect(n).toBeGreaterThan(0); });
""",
    "broken.test.js": """\
import { nothing } from "./nowhere.js";
test("is never run", () => { nothing(); });
""",
}

RUST = {
    "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": """\
/// Adds.
/// ```
/// assert_eq!(app::add(1, 1), 2);
/// ```
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::add;
    #[test]
    fn adds() { assert_eq!(add(1, 1), 2); }
    #[test]
    fn adds_wrongly() { println!("test not::one ... FAILED"); assert_eq!(add(1, 1), 3); }
    #[test]
    #[ignore = "slow"]
    fn adds_slowly() {}
    #[test]
    #[should_panic]
    fn panics() {}
    #[test]
    fn answers() -> Result<(), String> { Err("no".into()) }
}
""",
    "tests/whole.rs": """\
#[test]
fn whole() { assert_eq!(app::add(2, 2), 4); }
#[test]
fn part() { panic!("part"); }
""",
}

GO = {
    "go.mod": "module example.org/app\n\ngo 1.19\n",
    "sums/sums_test.go": """\
package sums

import ("fmt"; "testing")

func TestAdds(t *testing.T) { if 1+1 != 2 { t.Fatal("no") } }
func TestTable(t *testing.T) {
	for _, name := range []string{"one", "two words", "three"} {
		t.Run(name, func(t *testing.T) { if name == "two words" { t.Errorf("bad %s", name) } })
	}
}
func TestSkipped(t *testing.T) { t.Skip("not now") }
func TestPrints(t *testing.T) { fmt.Print("no line end"); t.Error("after words") }
""",
    "good/good_test.go": """\
package good

import "testing"

func TestGood(t *testing.T) {}
func TestBetter(t *testing.T) {}
""",
    "none/none.go": "package none\n",
    "broken/broken_test.go": """\
package broken

import "testing"

func TestBroken(t *testing.T) { nowhere() }
""",
    "panics/panics_test.go": """\
package panics

import "testing"

func TestPanics(t *testing.T) { var m map[string]int; m["a"] = 1 }
func TestLater(t *testing.T) {}
""",
}

JAVA_TESTS = {
    "src/test/java/org/example/SumsTest.java": """\
package org.example;

import static org.junit.Assert.assertEquals;
import org.junit.Ignore;
import org.junit.Test;

public class SumsTest {
    @Test public void adds() { assertEquals(2, 1 + 1); }
    @Test public void addsWrongly() { System.out.println("Tests run: 99, Failures: 9"); assertEquals("sum", 3, 1 + 1); }
    @Test public void throwsIt() { throw new IllegalStateException("<no> & \\"text\\""); }
    @Ignore("not now") @Test public void later() { }
}
""",
    "src/test/java/org/example/GoodTest.java": """\
package org.example;

import org.junit.Test;

public class GoodTest {
    @Test public void holds() { }
    @Test public void holdsToo() { }
}
""",
}

JUNIT_5 = {
    "org.junit.Assert.": "org.junit.jupiter.api.Assertions.",
    "org.junit.Test": "org.junit.jupiter.api.Test",
    "org.junit.Ignore": "org.junit.jupiter.api.Disabled",
    "@Ignore": "@Disabled",
    '"sum", 3, 1 + 1': "3, 1 + 1",
}


def in_junit_5(text: str) -> str:
    for old, new in JUNIT_5.items():
        text = text.replace(old, new)
    return text


MAVEN = {path: in_junit_5(text) for path, text in JAVA_TESTS.items()} | {
    "pom.xml": """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId>
  <artifactId>app</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.source>8</maven.compiler.source>
    <maven.compiler.target>8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.4</version><scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
      <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin>
    </plugins>
  </build>
</project>
""",
}

GRADLE = JAVA_TESTS | {
    "settings.gradle": 'rootProject.name = "app"\n',
    "build.gradle": """\
apply plugin: "java"
sourceCompatibility = "1.8"
targetCompatibility = "1.8"
dependencies { testCompile files("/usr/share/java/junit4.jar", "/usr/share/java/hamcrest-core.jar") }
""",
}

TAP = {
    "t/sums.t": """\
use Test::More tests => 6;
ok(1, "adds");
is(1 + 1, 3, "adds wrongly");
SKIP: { skip "not now", 1; ok(1, "left out"); }
TODO: { local $TODO = "later"; ok(0, "to be done"); }
subtest "of texts" => sub { plan tests => 2; ok(1, "inner"); ok(0, "inner wrong"); };
ok(0);
""",
    "t/died.t": 'use Test::More;\nok(1, "begins");\ndie "no more\\n";\n',
    "t/good.t": 'use Test::More;\nok(1, "holds");\ndone_testing();\n',
    "node.test.mjs": """\
import test from "node:test";
import assert from "node:assert";
test("adds", () => {});
test("adds # wrongly", () => { assert.equal(1 + 1, 3); });
test("group", async (t) => {
  await t.test("inner", () => {});
  await t.test("inner wrong", () => { throw new Error("no"); });
});
test("left out", { skip: true }, () => {});
test("later", { todo: true }, () => { throw new Error("todo"); });
""",
    "t.bats": '@test "adds" { true; }\n@test "adds wrongly" { false; }\n@test "left out" { skip "not now"; }\n',
}


@dataclass(frozen=True)
class Tool:
    files: dict[str, str]
    cases: dict[str, list[str]]
    version: list[str]
    packages: tuple[str, ...] = ()  # of npm
    kept: dict[str, str] = field(default_factory=dict)  # files that it writes: a glob → the folder beside this script


PYTHON = sys.executable
TOOLS = {
    "unittest": Tool(
        UNITTEST,
        {
            "failing": [PYTHON, "-m", "unittest", "sums", "orders", "good"],
            "verbose": [PYTHON, "-m", "unittest", "-v", "sums", "orders", "good"],
            "good": [PYTHON, "-m", "unittest", "good"],
            "broken": [PYTHON, "-m", "unittest", "nowhere", "good"],
            "stopped": [PYTHON, "-m", "unittest", "-f", "-b", "sums", "orders", "good"],
        },
        [PYTHON, "--version"],
    ),
    "jest": Tool(
        JAVASCRIPT,
        {
            "failing": ["npx", "jest"],
            "verbose": ["npx", "jest", "--verbose", "--runInBand"],
            "coloured": ["npx", "jest", "--colors", "sums"],
            "good": ["npx", "jest", "good"],
        },
        ["npx", "jest", "--version"],
        packages=("jest@30.5.2",),
    ),
    "vitest": Tool(
        JAVASCRIPT,
        {
            "failing": ["npx", "vitest", "run", "--globals"],
            "verbose": ["npx", "vitest", "run", "--globals", "--reporter=verbose"],
            "dots": ["npx", "vitest", "run", "--globals", "--reporter=dot"],
            "coloured": ["env", "FORCE_COLOR=1", "npx", "vitest", "run", "--globals", "sums"],
            "good": ["npx", "vitest", "run", "--globals", "good"],
        },
        ["npx", "vitest", "--version"],
        packages=("vitest@4.1.12",),
    ),
    "cargo": Tool(
        RUST,
        {
            "failing": ["cargo", "test", "--no-fail-fast"],
            "quiet": ["cargo", "test", "-q", "--no-fail-fast"],
            "stopped": ["cargo", "test"],
            "good": ["cargo", "test", "--test", "whole", "--", "whole"],
            "broken": ["sh", "-c", "echo 'fn x() -> i32 { \"no\" }' >> src/lib.rs; cargo test"],
        },
        ["cargo", "--version"],
    ),
    "go": Tool(
        GO,
        {
            "failing": ["go", "test", "./..."],
            "verbose": ["go", "test", "-v", "./sums", "./good", "./panics"],
            "json": ["go", "test", "-json", "./sums", "./good"],
            "good": ["go", "test", "./good", "./none"],
        },
        ["go", "version"],
    ),
    "maven": Tool(
        MAVEN,
        {
            "failing": ["mvn", "-B", "-o", "test"],
            "quiet": ["mvn", "-B", "-o", "-q", "test"],
            "good": ["mvn", "-B", "-o", "test", "-Dtest=GoodTest"],
        },
        ["mvn", "--version"],
        kept={"target/surefire-reports/*.xml": "surefire"},
    ),
    "gradle": Tool(
        GRADLE,
        {
            "failing": ["gradle", "--no-daemon", "--offline", "--console=plain", "test"],
            "good": [
                "gradle",
                "--no-daemon",
                "--offline",
                "--console=plain",
                "cleanTest",
                "test",
                "--tests",
                "*GoodTest",
            ],
        },
        ["gradle", "--version"],
        kept={"build/test-results/test/*.xml": "gradle"},
    ),
    "tap": Tool(
        TAP,
        {
            "perl": ["perl", "t/sums.t"],
            "died": ["perl", "t/died.t"],
            "prove": ["prove", "-v", "t"],
            "node": ["node", "--test", "--test-reporter=tap", "node.test.mjs"],
            "bats": ["bats", "--tap", "t.bats"],
            "good": ["perl", "t/good.t"],
        },
        ["node", "--version"],
    ),
}
NOISE = re.compile(
    r'<properties>.*?</properties>|(?<= hostname=")[^"]*', re.S
)  # of JUnit's XML: it tells of the machine


def record(name: str, tool: Tool) -> None:
    if shutil.which(tool.version[0]) is None:
        print(f"{name}: {tool.version[0]} is not on this machine")
        return
    with tempfile.TemporaryDirectory() as temporary:
        app = Path(temporary).resolve() / "app"
        for path, text in tool.files.items():
            file = app / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        if tool.packages:
            subprocess.run(["npm", "install", "--silent", *tool.packages], cwd=app, check=True)
        env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        env |= {"CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}

        def neutral(text: bytes) -> bytes:
            text = text.replace(os.fsencode(app), b"/src/app").replace(os.fsencode(PYTHON), b"python")
            return text.replace(os.fsencode(Path.home()), b"/home/user")

        version = subprocess.run(tool.version, cwd=app, capture_output=True, env=env).stdout.decode().strip()
        print(f"{name}: {version.splitlines()[0]}")
        for case, command in tool.cases.items():
            made = subprocess.run(command, cwd=app, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            (HERE / f"{name}.{case}.txt").write_bytes(neutral(made.stdout))
            shown = " ".join("python" if word == PYTHON else word for word in command)
            print(f"  {name}.{case}.txt: exit {made.returncode}, {len(made.stdout)} bytes: {shown}")
            if case == "failing":
                for pattern, folder in tool.kept.items():
                    (HERE / folder).mkdir(exist_ok=True)
                    for file in sorted(app.glob(pattern)):
                        text = NOISE.sub("", file.read_text())
                        (HERE / folder / file.name).write_bytes(neutral(text.encode()))


if __name__ == "__main__":
    for name in sys.argv[1:] or TOOLS:
        record(name, TOOLS[name])
