# Finds the messages of ONNX and makes onnx::proto. The package file that comes with ONNX is not used: Debian's brings
# the checker and the shape inference as well, which we do not need.
find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h)
find_library(ONNX_PROTO_LIBRARY onnx_proto)
find_library(ONNX_PROTOBUF_LIBRARY protobuf)
mark_as_advanced(ONNX_INCLUDE_DIR ONNX_PROTO_LIBRARY ONNX_PROTOBUF_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNX REQUIRED_VARS ONNX_PROTO_LIBRARY ONNX_PROTOBUF_LIBRARY ONNX_INCLUDE_DIR)
if(ONNX_FOUND AND NOT TARGET onnx::proto)
  add_library(onnx::proto UNKNOWN IMPORTED)
  set_target_properties(onnx::proto PROPERTIES
    IMPORTED_LOCATION "${ONNX_PROTO_LIBRARY}"
    INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx"
    INTERFACE_INCLUDE_DIRECTORIES "${ONNX_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${ONNX_PROTOBUF_LIBRARY}")
endif()
