"""The steps of scripts/test: what each builds, and which tests run there. See CONTRIBUTING.md."""
import functools
import shutil

import commands

CLANG = "clang++-16"
GPU_TESTS = ("kernels_gpu_test", "graph_gpu_test", "made_cublas_test", "runtime_refusals_test")
# Those of them that need no GPU: what becomes of the driver's refusals, how cuBLAS and NVRTC are found, what they make.
WITHOUT_A_GPU = "CublasProducts|RuntimeRefusals|Nvrtc"


def needs(program, step):
    """A step that is left out with a line where a program is missing."""
    @functools.wraps(step)
    def checked(run):
        if shutil.which(program):
            step(run)
        else:
            run.leave_out(step.__name__, f"there is no {program}")
    return checked


def labels(*names):
    """The options of ctest for tests with one of these labels; a test with two has both in one word."""
    return "-L", "|".join(names)


# ---- at every change, each test where it finds most

def format(run):
    """Every source as .clang-format says; floors, names, comments, pages."""
    run.command("scripts/lint", "--format")


def ci(run):
    """g++, as users build it, warnings are errors: what starts programs, runs of actors, and arithmetic."""
    if run.build("ci", "mailgrad_tests_process", "mailgrad_tests_actor", "mailgrad_tests_native", "bench/all"):
        run.tests("ci", *labels("process", "actor", "native"))


def asan(run):
    """Address- and UndefinedBehaviorSanitizer, for any x86-64 and without oneDNN: plain classes, and memory of a GPU."""
    if run.build("asan", "mailgrad_tests_unit"):
        run.tests("asan", *labels("unit"))


def tsan(run):
    """ThreadSanitizer: what has several threads, or streams of a GPU; a fifth of what step ci runs whole."""
    if run.build("tsan", "mailgrad_tests_thread"):
        run.tests("tsan", *labels("thread"), but=["native"], prefix=commands.fixed_addresses())
        run.tests("tsan", *labels("thread-native"), *run.a_fifth(), prefix=commands.fixed_addresses())


def cuda(run, preset="ci", settings=("-DMAILGRAD_CUDA_TESTS=ON", "-DCMAKE_CUDA_ARCHITECTURES=90")):
    """The kernels of a GPU by nvcc, what their code looks like, and programs that link them."""
    if not (nvcc := commands.nvcc()):
        run.leave_out("cuda", "there is no nvcc")
    elif (run.build(preset, *GPU_TESTS, settings=[*settings, f"-DCMAKE_CUDA_COMPILER={nvcc}"]) and
          run.command("scripts/check-gpu-code", f"build/{preset}")):
        run.tests(preset, "-R", WITHOUT_A_GPU)


# ---- once a day, or before a release: every test in every build

def ci_whole(run):
    """Every test by g++, as users build it."""
    if run.build("ci"):
        run.tests("ci")


def interleavings(run):
    """Small runs of six batches in every order of their messages."""
    if run.build("ci", "mailgrad", "actors_interleavings_test"):
        run.command("scripts/endurance", "build/ci/cli/mailgrad", "interleavings")


def asan_whole(run):
    """Every test under Address- and UndefinedBehaviorSanitizer, those of several processes too."""
    if run.build("asan"):
        run.tests("asan")


def tsan_whole(run):
    """All runs of actors under ThreadSanitizer."""
    if run.build("tsan", "mailgrad_tests_thread", "mailgrad_tests_actor"):
        run.tests("tsan", *labels("thread", "actor"), prefix=commands.fixed_addresses())


def portable(run):
    """The kernels by g++ for any x86-64, without oneDNN."""
    if run.build("portable", "kernels_test"):
        run.tests("portable", *labels("unit"))


def bare(run):
    """The tool without all that a build may leave out, and what it says of that."""
    if run.build("bare", "mailgrad"):
        run.command("tests/steps/bare_tool.py", "build/bare/cli/mailgrad")


def traced(run):
    """The way of a gradient: the classes that a run enters are those of the page."""
    if run.build("traced", "mailgrad"):
        run.command("tests/steps/traced_tool.py", "build/traced/cli/mailgrad")


def clang(run):
    """Every test by clang, optimised; warnings are errors."""
    if run.build("clang"):
        run.tests("clang")


def alone(run):
    """Each source compiled by itself, which finds a forgotten include and a name that hides another."""
    run.build("dev", settings=["-DMAILGRAD_WERROR=ON"])


def cuda_whole(run):
    """Every program with the kernels of a GPU, for sm_80 and sm_90."""
    if not commands.nvcc() or run.build("cuda-test", settings=[f"-DCMAKE_CUDA_COMPILER={commands.nvcc()}"]):
        cuda(run, "cuda-test", ())


A_CHANGE = (format, ci, needs(CLANG, asan), needs(CLANG, tsan), cuda)
EVERYTHING = (format, ci_whole, interleavings, needs(CLANG, asan_whole), needs(CLANG, tsan_whole), portable, bare, traced,
              needs(CLANG, clang), alone, cuda_whole)


def described(steps):
    return "\n".join(f"  {step.__name__.replace('_', '-'):14}{step.__doc__}" for step in steps)
