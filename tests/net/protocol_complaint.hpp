#pragma once

#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad::net {

/// The words of the protocol_error that `call` throws; none if it throws nothing.
template <class Call>
std::string protocol_complaint(Call call) {
  try {
    call();
  } catch (const protocol_error& e) {
    const std::string words = e.what();
    EXPECT_EQ(words.find('\n'), std::string::npos) << "more than one line: " << words;
    return words;
  }
  return "";
}

} // namespace mailgrad::net
