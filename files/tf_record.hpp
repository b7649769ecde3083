#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

/// The bytes of one record in a file of TensorFlow's, which is nothing but such records one after the other:
/// the length of the data, the data, and a masked CRC-32C behind each. By these a reader tells a record that
/// is still being written from one that is damaged.
///
/// Source  tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details".
std::string tf_record(std::string_view data);

} // namespace mailgrad
