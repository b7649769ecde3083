#include <dlfcn.h>
#include <nvrtc.h>

// An NVRTC that was made for tests. It is of CUDA 12.4, which is too old for this build, unless it is
// compiled for another, and does nothing but look for its second library as NVRTC does: by the name.
#ifndef MADE_NVRTC_MAJOR
#define MADE_NVRTC_MAJOR 12
#define MADE_NVRTC_MINOR 4
#endif

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = MADE_NVRTC_MAJOR;
  *minor = MADE_NVRTC_MINOR;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*,
                               const char* const*) {
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) {
  const bool found = dlopen("libnvrtc-builtins.so.13.99", RTLD_NOW | RTLD_LOCAL) != nullptr;
  return found ? NVRTC_SUCCESS : NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t* bytes) {
  *bytes = 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char* code) {
  *code = 'c';
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
const char* nvrtcGetErrorString(nvrtcResult) { return "an NVRTC that was made for a test"; }

} // extern "C"
