// The second library of the NVRTC that was made for tests.
extern "C" int made_nvrtc_builtins() { return 1; }
