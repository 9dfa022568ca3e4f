#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <utility>

#include "server/http/target.h"

namespace eadem::server {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

// A body as a string that grows with what really comes: the length that a header claims reserves nothing.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool isRequest, class Fields>
    explicit reader(http::header<isRequest, Fields>& /*header*/, value_type& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& /*length*/, error_code& fault) { fault = {}; }

    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& fault) {
      fault = {};
      size_t size = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers);
           ++it) {
        const boost::asio::const_buffer buffer(*it);
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        size += buffer.size();
      }
      return size;
    }

    void finish(error_code& fault) { fault = {}; }

   private:
    value_type& body_;
  };
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Whether a request line is one but for its version: not, for example, a path with a space in it.
bool names_version(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
  return std::count(line.begin(), line.end(), ' ') == 2 && line.find(" HTTP/") != std::string_view::npos;
}

}  // namespace

struct RequestReader::Parser : http::request_parser<GrowingBody> {};

RequestReader::RequestReader(const ReaderLimits& limits)
    : parser_(std::make_unique<Parser>()), header_limit_(limits.header) {
  parser_->header_limit(static_cast<uint32_t>(limits.header));
  parser_->body_limit(limits.body);
}

RequestReader::~RequestReader() = default;

void RequestReader::fail(int status, std::string why) {
  state_ = State::kFailed;
  fault_status_ = status;
  fault_ = std::move(why);
}

size_t RequestReader::feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && (state_ == State::kHeader || state_ == State::kBody)) {
    error_code fault;
    // Beast keeps nothing of a header, a chunk's head or a trailer that is not whole: without an end, our own buffer is
    // what would grow. The same bytes are refused however they are cut.
    const size_t size = std::min(bytes.size() - taken, header_limit_);
    const size_t used = parser_->put(boost::asio::const_buffer(bytes.data() + taken, size), fault);
    taken += used;
    // Beast's own count of a header depends on how its bytes are cut.
    if (state_ == State::kHeader) header_used_ += used;
    if (header_used_ > header_limit_) fault = http::error::header_limit;
    if (fault == http::error::need_more) {
      if (used > 0) continue;
      if (size < header_limit_) break;
      fault = http::error::header_limit;
    }
    if (fault == http::error::header_limit) {
      fail(431, "the header of the request is longer than " + std::to_string(header_limit_) + " bytes");
    } else if (fault == http::error::body_limit) {
      fail(413, "the body of the request is longer than the server takes");
    } else if (fault == http::error::bad_version && names_version(bytes)) {
      fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    } else if (fault) {
      fail(400, "not a valid HTTP request: " + fault.message());
    } else if (state_ == State::kHeader && parser_->is_header_done()) {
      take_header();
      if (state_ != State::kFailed && parser_->is_done()) state_ = State::kDone;
      return taken;
    } else if (parser_->is_done()) {
      request_.body = std::move(parser_->get().body());
      state_ = State::kDone;
    } else if (used == 0) {
      break;
    }
  }
  return taken;
}

void RequestReader::take_header() {
  state_ = State::kBody;
  parser_->eager(true);
  const auto& message = parser_->get();
  http_1_0_ = message.version() == 10;
  keep_alive_ = message.keep_alive();
  request_.method = view(message.method_string());
  head_only_ = request_.method == "HEAD";
  if (head_only_) request_.method = "GET";
  for (const auto& field : message) {
    std::string& value = request_.headers[lower(view(field.name_string()))];
    if (!value.empty()) value += ", ";
    value += view(field.value());
  }
  if (!http_1_0_ && message.count(http::field::host) != 1) {
    fail(400, "an HTTP/1.1 request needs one Host header");
    return;
  }
  const auto expect = request_.headers.find("expect");
  if (expect != request_.headers.end()) {
    expects_continue_ = !http_1_0_ && lower(expect->second) == "100-continue";
    if (!expects_continue_) {
      fail(417, "the only expectation known here is 100-continue");
      return;
    }
  }
  // A coding that we cannot undo would make the length of the body a matter of opinion.
  const auto coding = request_.headers.find("transfer-encoding");
  if (coding != request_.headers.end() && (lower(coding->second) != "chunked" || http_1_0_)) {
    fail(501, "the only transfer coding known here is chunked");
    return;
  }
  if (request_.method == "OPTIONS" && view(message.target()) == "*") {
    request_.path = "*";
    return;
  }
  auto target = parse_target(view(message.target()));
  if (!target) {
    fail(400, "the target of the request is not a valid path");
    return;
  }
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
}

}  // namespace eadem::server
