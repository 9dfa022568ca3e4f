// The wire over real sockets, with handlers of the test's own: bytes as clients should not send them, and clients that
// go, stall or ask too much.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "raw_client.h"

namespace eadem::test {
namespace {

using server::WireOptions;

std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string(more) + "\r\n" + std::string(body);
}
std::string get(std::string_view path, std::string_view more = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n" + std::string(more) + "\r\n";
}

TEST_F(WireFixture, KeepsConnectionsAndAnswersInOrder) {
  open();
  RawClient client(port());
  EXPECT_EQ(body_of(client.ask(get("/hello?name=a%20b+c"))), "hello a b c\n");
  EXPECT_EQ(body_of(client.ask(post("/echo", "again"))), "again");
  EXPECT_EQ(body_of(client.ask(get("/models/org/name%20x"))), "org/name x");
  client.send(post("/echo", "one") + get("/hello") + post("/echo", "three", "Connection: close\r\n"));
  const std::string all = client.read_to_end();
  EXPECT_TRUE(client.at_end());
  const size_t one = all.find("one"), two = all.find("hello"), three = all.find("three");
  EXPECT_TRUE(one < two && two < three && three != std::string::npos) << all;
  EXPECT_EQ(wire_->counts().accepted, 1u);
}

TEST_F(WireFixture, BytesMayComeOneByOne) {
  open();
  RawClient client(port());
  const std::string chunked =
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: "
      "1\r\n\r\n";
  for (const char byte : chunked) {
    client.send({&byte, 1});
    if (byte == '\n') std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(body_of(client.reply()), "abcde");
  EXPECT_EQ(body_of(client.ask(get("/hello"))), "hello \n");
}

TEST_F(WireFixture, Http10HeadOptions) {
  open();
  RawClient old(port());
  old.send("GET /hello HTTP/1.0\r\n\r\n");
  const std::string reply = old.read_to_end();
  EXPECT_TRUE(reply.starts_with("HTTP/1.0 200 ") && body_of(reply) == "hello \n") << reply;
  RawClient old_stream(port());
  old_stream.send("GET /three HTTP/1.0\r\n\r\n");
  EXPECT_EQ(body_of(old_stream.read_to_end()), "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
  RawClient client(port());
  client.send("HEAD /hello HTTP/1.1\r\nHost: t\r\n\r\n");
  const std::string head = client.read("\r\n\r\n");
  EXPECT_TRUE(has(head, "Content-Length: 7\r\n") && body_of(head).empty()) << head;
  EXPECT_TRUE(has(client.ask("OPTIONS /echo HTTP/1.1\r\nHost: t\r\n\r\n"), "Allow: OPTIONS, POST\r\n"));
  const std::string preflight = client.ask(
      "OPTIONS /echo HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization\r\n\r\n");
  EXPECT_TRUE(has(preflight, "Access-Control-Allow-Origin: *\r\n"));
  EXPECT_TRUE(has(preflight, "Access-Control-Allow-Headers: authorization\r\n"));
}

TEST_F(WireFixture, StreamsInChunks) {
  open();
  RawClient client(port());
  client.send(get("/three"));
  const std::string all = client.read("\r\n0\r\n\r\n");
  EXPECT_TRUE(has(all, "Transfer-Encoding: chunked\r\n"));
  const size_t one = all.find("data: 1\n\n"), two = all.find("data: 2\n\n"), done = all.find("data: [DONE]\n\n");
  EXPECT_TRUE(one < two && two < done && done != std::string::npos) << all;
  EXPECT_EQ(body_of(client.ask(get("/hello"))), "hello \n");  // the connection goes on
}

TEST_F(WireFixture, ErrorsHaveOpenAisShape) {
  open();
  RawClient client(port());
  const std::string missing = client.ask(get("/nothing"));
  EXPECT_EQ(status_of(missing), 404);
  EXPECT_EQ(
      body_of(missing),
      R"({"error":{"message":"there is nothing at /nothing","type":"not_found_error","param":null,"code":null}})");
  const std::string wrong = client.ask(get("/echo"));
  EXPECT_EQ(status_of(wrong), 405);
  EXPECT_TRUE(has(wrong, "Allow: OPTIONS, POST\r\n"));
  EXPECT_EQ(status_of(client.ask(get("/throw"))), 500);
  EXPECT_EQ(status_of(RawClient(port()).ask(get("/forget"))), 500);
  EXPECT_EQ(status_of(client.ask(post("/echo", "x", "Content-Encoding: gzip\r\n"))), 415);
}

TEST_F(WireFixture, RefusesWhatIsNoRequest) {
  WireOptions options;
  options.limits = {.header = 4096, .body = 1000};
  open(options);
  const std::string start = "POST /echo HTTP/1.1\r\nHost: t\r\n", chunks = start + "Transfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, int> cases[] = {
      {"rubbish\r\n\r\n", 400},
      {"GET /hello HTTP/3.0\r\nHost: t\r\n\r\n", 505},
      {"GET /hello HTTP/1.1\r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\nHost: t\r\n\r\n", 400},
      {"GET /hello HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n", 400},
      {get("/%zz"), 400},
      {get("/a%00"), 400},
      {get("/hello", "X: " + std::string(5000, 'a') + "\r\n"), 431},
      {"GET /" + std::string(9000, 'a'), 431},
      {start + "Content-Length: 1001\r\n\r\n", 413},
      {start + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {start + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nab", 400},
      {start + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {start + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {start + "Expect: miracles\r\nContent-Length: 1\r\n\r\n", 417},
      {chunks + "zz\r\nab\r\n", 400},
      {chunks + "1\r\nabc\r\n", 400},
      {chunks + "fffffffffffffffffffff\r\n", 400},
      {chunks + "3e9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n", 413},
      {chunks + "1;" + std::string(9000, 'x'), 431},
  };
  for (const auto& [bytes, status] : cases) {
    RawClient client(port());
    client.send(bytes);
    const std::string reply = client.read_to_end();
    EXPECT_EQ(status_of(reply), status) << bytes.substr(0, 200) << "\n" << reply;
    EXPECT_TRUE(client.at_end() && has(reply, "Connection: close\r\n") && has(reply, "\"error\""))
        << bytes.substr(0, 99);
  }
  RawClient client(port());  // and what is within the limits passes
  EXPECT_EQ(body_of(client.ask(post("/echo", std::string(1000, 'a')))), std::string(1000, 'a'));
}

TEST_F(WireFixture, AsksForTheBodyOnlyWhereItIsWanted) {
  WireOptions options;
  options.limits.body = 100;
  open(options);
  RawClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(has(client.read("\r\n\r\n"), "HTTP/1.1 100 Continue"));
  EXPECT_EQ(body_of(client.ask("body")), "body");
  EXPECT_EQ(
      status_of(client.ask("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n")),
      413);
}

TEST_F(WireFixture, KeysOpenWhatIsNotOpen) {
  WireOptions options;
  options.api_keys = {"first key", "second"};
  open(options);
  RawClient client(port());
  EXPECT_EQ(status_of(client.ask(get("/open"))), 200);
  EXPECT_EQ(status_of(client.ask(get("/hello"))), 401);
  for (const char* const wrong :
       {"Bearer secon", "Bearer second ", "Basic second", "second", "Bearer ", "Bearer firstkey"}) {
    const std::string value = std::string("Authorization: ") + wrong + "\r\n";
    const bool trimmed = std::string(wrong) == "Bearer second ";  // spaces around a value are no part of it
    EXPECT_EQ(status_of(client.ask(get("/hello", value))), trimmed ? 200 : 401) << wrong;
  }
  EXPECT_EQ(status_of(client.ask(get("/hello", "Authorization: bearer second\r\n"))), 200);
  EXPECT_EQ(status_of(client.ask(get("/hello", "Authorization: Bearer first key\r\n"))), 200);
  // Refused before its body is read.
  RawClient big(port());
  EXPECT_EQ(status_of(big.ask("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n")), 401);
}

TEST_F(WireFixture, TraceAndRequestIds) {
  open();
  RawClient client(port());
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const std::string reply =
      client.ask(get("/hello", "X-Request-Id: mine-1\r\ntraceparent: 00-" + trace + "-00f067aa0ba902b7-01\r\n"));
  EXPECT_TRUE(has(reply, "X-Request-Id: mine-1\r\n"));
  EXPECT_TRUE(has(reply, "traceparent: 00-" + trace + "-") && has(reply, "-01\r\n")) << reply;
  EXPECT_FALSE(has(reply, "00f067aa0ba902b7"));  // a span of our own
  const std::string fresh = client.ask(get("/hello", "X-Request-Id: a b<>\r\ntraceparent: 00-zz\r\n"));
  EXPECT_FALSE(has(fresh, "a b<>"));
  const auto all = records(2);
  EXPECT_EQ(all[0].request_id, "mine-1");
  EXPECT_EQ(all[0].trace_id, trace);
  EXPECT_EQ(all[1].trace_id.size(), 32u);
  EXPECT_TRUE(all[0].method == "GET" && all[0].path == "/hello" && all[0].status == 200 && all[0].bytes_out == 7);
}

TEST_F(WireFixture, AClientThatGoesIsNoticedAtOnce) {
  open();
  int gone = 0;
  for (const char* const path : {"/whole", "/stream"}) {
    for (const bool hard : {false, true}) {
      // No timer tells of it, whose ticks would delay each of them; a busy machine may delay some.
      auto fastest = std::chrono::steady_clock::duration::max();
      for (int attempt = 0; attempt < 10 && fastest >= 100ms; ++attempt) {
        RawClient client(port());
        client.send(post(path, "x"));
        held(static_cast<size_t>(gone));
        const auto start = std::chrono::steady_clock::now();
        hard ? client.reset() : client.close();
        ++gone;
        ASSERT_TRUE(wait_until([&] { return gone_ == gone; })) << path;
        fastest = std::min(fastest, gone_at_.load() - start);
      }
      EXPECT_LT(fastest, 100ms) << path;
    }
  }
  EXPECT_GE(gone, 4);
  for (const auto& record : records(static_cast<size_t>(gone))) EXPECT_EQ(record.status, 499);
}

TEST_F(WireFixture, AClientThatGoesBehindAFullInboxIsNoticed) {
  open();
  RawClient client(port());
  client.send(post("/whole", "x"));
  held();
  client.send(std::string(size_t{100} << 10, 'a'));  // more than is read ahead
  client.reset();
  EXPECT_TRUE(wait_until([&] { return gone_ == 1; }));
}

TEST_F(WireFixture, HalfAClosedConnectionStillGetsItsReply) {
  open();
  RawClient client(port());
  client.send(post("/whole", "x", "Connection: close\r\n"));
  client.half_close();
  held();
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(gone_, 0);
  release();
  EXPECT_EQ(body_of(client.read_to_end()), "late");
}

TEST_F(WireFixture, AReaderThatDoesNotReadIsCutOff) {
  WireOptions options;
  options.max_unsent = size_t{64} << 10;
  open(options);
  RawClient client(port(), 4096);
  client.send(post("/stream", ""));
  const auto reply = held();
  for (int i = 0; i < 4000 && gone_ == 0; ++i) {
    reply->write(std::string(4096, 'x'));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(wait_until([&] { return gone_ == 1; }));
  EXPECT_TRUE(has(records(1)[0].fault, "does not read"));
}

TEST_F(WireFixture, ASlowReaderOfOneLongReplyIsServed) {
  WireOptions options;
  options.max_unsent = size_t{64} << 10;
  options.idle_timeout = 1s;
  open(options);
  const std::string body(size_t{12} << 20, 'y'), request = post("/echo", body);
  RawClient client(port(), 65536);
  ASSERT_TRUE(client.send(request));
  std::this_thread::sleep_for(1500ms);
  const std::string reply = client.reply();
  EXPECT_EQ(body_of(reply).size(), body.size());
}

TEST_F(WireFixture, WhoDoesNotFinishAskingIsEnded) {
  WireOptions options;
  options.idle_timeout = 5s;  // whoever has something to say gets to say it before
  options.header_timeout = options.body_timeout = 500ms;
  open(options);
  const std::pair<std::string, int> cases[] = {
      {"", 0},
      {"GET /he", 408},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc", 408},
      {"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nab", 408},
  };
  for (const auto& [bytes, status] : cases) {
    RawClient client(port());
    client.send(bytes);
    const std::string reply = client.read_to_end();
    EXPECT_EQ(status_of(reply), status) << bytes;
    EXPECT_TRUE(client.at_end());
  }
  RawClient slow(port());  // a byte now and then is no way around it
  bool sent = true;
  const auto start = std::chrono::steady_clock::now();
  while (sent && std::chrono::steady_clock::now() - start < 60s) {
    sent = slow.send("G");
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_FALSE(sent);
  RawClient busy(port());  // but a request under way has all the time it needs
  busy.send(post("/whole", "x"));
  held();
  std::this_thread::sleep_for(1200ms);
  EXPECT_EQ(gone_, 0);
}

TEST_F(WireFixture, ConnectionsAreLimited) {
  WireOptions options;
  options.max_connections = 3;
  open(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    EXPECT_EQ(status_of(clients.back()->ask(get("/hello"))), 200);
  }
  RawClient fourth(port());
  const std::string reply = fourth.read_to_end();
  EXPECT_EQ(status_of(reply), 503);
  EXPECT_EQ(body_of(reply).size(), 113u);
  clients.pop_back();
  EXPECT_TRUE(wait_until([&] { return wire_->counts().open < 3; }));
  EXPECT_EQ(status_of(RawClient(port()).ask(get("/hello"))), 200);
  EXPECT_EQ(wire_->counts().refused, 1u);
}

TEST_F(WireFixture, DrainsAndStops) {
  open();
  RawClient idle(port()), busy(port()), streaming(port()), cut(port());
  EXPECT_EQ(status_of(idle.ask(get("/hello"))), 200);
  busy.send(post("/whole", "x"));
  held(0);
  streaming.send(post("/stream", "x"));
  held(1);
  cut.send(post("/whole", "x"));
  held(2);
  wire_->drain();
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.at_end());
  RawClient late(port());
  EXPECT_EQ(status_of(late.ask(get("/hello"))), 503);
  EXPECT_EQ(status_of(RawClient(port()).ask(get("/open"))), 200);
  EXPECT_FALSE(wire_->idle());
  held(0)->send(200, "text/plain", "done");
  const std::string whole = busy.read_to_end();
  EXPECT_TRUE(body_of(whole) == "done" && has(whole, "Connection: close\r\n")) << whole;
  held(1)->write("data: end\n\n");
  held(1)->end();
  EXPECT_TRUE(has(streaming.read_to_end(), "data: end\n\n\r\n0\r\n\r\n"));
  EXPECT_EQ(gone_, 0);
  wire_->stop();
  EXPECT_EQ(gone_, 1);
  EXPECT_TRUE(wire_->idle());
}

TEST_F(WireFixture, ClientsThatComeAndGoLeaveNothing) {
  open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        RawClient client(port());
        client.send(i % 3 == 0 ? get("/three") : post("/echo", std::string(static_cast<size_t>(i) * 97, 'z')));
        if (i % 5 == t) {
          client.reset();
        } else {
          EXPECT_EQ(status_of(client.reply()), 200);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(wait_until([&] { return wire_->counts().open == 0 && wire_->idle(); }));
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(WireFixture, IdleConnectionsAreSmall) {
  constexpr size_t kConnections = 2000, kMost = size_t{50} << 20;  // of both ends, which are in this process
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2 * kConnections + 100) GTEST_SKIP() << "too few file descriptors";
  WireOptions options;
  options.idle_timeout = 1h;  // the first must still be there when the last has come
  open(options);
  ::malloc_trim(0);  // what other tests left
  const size_t before = resident_bytes();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    EXPECT_EQ(status_of(clients.back()->ask(post("/echo", std::string(20000, 'a')))), 200);
  }
  EXPECT_EQ(wire_->counts().open, kConnections);
  const size_t grown = resident_bytes() - before;
  std::printf("%zu connections: %.1f KiB each\n", kConnections, static_cast<double>(grown) / kConnections / 1024);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(grown, kMost);
#else
  static_cast<void>(kMost);
#endif
}

TEST(Wire, SaysWhyItCannotListen) {
  WireOptions options;
  options.port = 0;
  auto first = server::Wire::open(options);
  ASSERT_TRUE(first.ok());
  options.port = first.value()->port();
  const auto second = server::Wire::open(options);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(has(second.error().message, "--port"));
  options.host = "no.such.host.invalid";
  EXPECT_FALSE(server::Wire::open(options).ok());
  options.host = "127.0.0.1";
  options.tls_certificate = "/nowhere/cert.pem";
  options.tls_key = "/nowhere/key.pem";
  const auto third = server::Wire::open(options);
  ASSERT_FALSE(third.ok());
  EXPECT_TRUE(has(third.error().message, "--ssl-certfile /nowhere/cert.pem"));
}

}  // namespace
}  // namespace eadem::test
