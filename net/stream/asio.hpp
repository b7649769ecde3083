#pragma once

// What of Boost.Asio the sources of this folder use. Not installed, since each source that includes it takes
// many seconds to compile.

#include <utility> // before Asio 1.74, which lacks it by g++ 12

#include <mailgrad/net/timing.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace mailgrad::net {

namespace asio = boost::asio;
using asio::ip::tcp;
/// A connection of whichever kind.
using stream_socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

inline asio::steady_timer::duration of_timer(instant span) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(span);
}

} // namespace mailgrad::net
