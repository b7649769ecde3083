# For scripts/mutants: what it changes is compiled without optimisation, the arithmetic below it with.
cmake_language(DEFER CALL target_compile_options mailgrad_kernels PRIVATE -O2)
