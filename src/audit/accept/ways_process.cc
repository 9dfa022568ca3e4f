// Ways that leave the thread, or the process: a new process, a service that many threads ask, a server over HTTP, a
// trace.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "api/request_json.h"
#include "audit/accept/child.h"
#include "audit/accept/trial.h"
#include "audit/accept/ways_of.h"
#include "audit/black_box/answer.h"
#include "audit/black_box/event_stream.h"
#include "eadem/service.h"
#include "fetch/http_calls.h"

namespace eadem::audit::accept {
namespace {

using nlohmann::ordered_json;

constexpr double kProcessSeconds = 900.0;  // that a child may take

std::vector<std::string> engine_arguments(const EngineOptions& options) {
  return {"-m",
          options.model,
          "--numerics",
          options.numerics,
          "--mode",
          options.mode,
          "--device",
          options.device,
          "--isa",
          options.isa,
          "--threads",
          std::to_string(options.threads),
          "--max-batch",
          std::to_string(options.max_batch),
          "--kv-memory",
          std::to_string(options.kv_memory),
          "--mixed-chunk",
          std::to_string(options.mixed_chunk)};
}

bool has_program(Trial& trial) {
  const bool has = !trial.lab().workshop().program.empty();
  if (!has) trial.not_testable("there is no program to start: this matrix runs inside another one");
  return has;
}

}  // namespace

bool is_command(std::string_view value) { return value == "alone" || value == "at once"; }

// `eadem generate` over a file, in a process of its own.
Result<void> run_in_process(Trial& trial) {
  if (!has_program(trial)) return {};
  EADEM_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make());
  std::map<std::string, const Question*> by_id;
  {
    std::ofstream file(folder.file("requests.jsonl"));
    for (const Question& question : trial.questions()) {
      ordered_json line = api::to_json(question.request.sampling);
      line["id"] = question.id, line["prompt"] = question.request.prompt_token_ids;
      file << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
      by_id[question.id] = &question;
    }
    if (!file.flush()) return Error{folder.file("requests.jsonl") + " cannot be written"};
  }
  EngineOptions options = trial.options();
  options.max_batch = trial.value() == "alone" ? 1 : 8;
  std::vector<std::string> arguments = {
      "generate", "--in", folder.file("requests.jsonl"), "--out", folder.file("answers.jsonl"), "--kv-hash"};
  const auto engine = engine_arguments(options);
  arguments.insert(arguments.end(), engine.begin(), engine.end());
  const Workshop& workshop = trial.lab().workshop();
  EADEM_ASSIGN_OR_RETURN(Child child, Child::start(workshop.program, arguments, folder));
  EADEM_RETURN_IF_ERROR(child.wait(kProcessSeconds, workshop.interrupted));
  EADEM_RETURN_IF_ERROR(child.check());
  if (child.pid() != ::getpid()) trial.count("processes");
  std::ifstream file(folder.file("answers.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const ordered_json answer = ordered_json::parse(line, nullptr, false);
    if (!answer.is_object() || !answer.contains("id") || !by_id.contains(answer["id"].get<std::string>()))
      return Error{"a line of the process is no answer: " + line.substr(0, 200)};
    const Question& question = *by_id[answer["id"].get<std::string>()];
    EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(question.request));
    trial.hold(question.id, trial.json_of(question.request, was->front()), answer, question.level);
  }
  return {};
}

namespace {

// Asks every question of the trial, one after the other, beginning at another one than the other threads do. No first
// question is answered before all threads have asked theirs: that they meet is no matter of chance.
void ask_in_turn(Service& service, const std::vector<Question>& questions, size_t first, std::latch& all_asked,
                 std::vector<std::vector<Completion>>& answers) {
  for (size_t i = 0; i < questions.size(); ++i) {
    const size_t which = (first + i) % questions.size();
    std::promise<std::vector<Completion>> promise;
    Callbacks callbacks;
    callbacks.on_start = [&all_asked] { all_asked.wait(); };
    callbacks.on_done = [&promise](std::vector<Completion> all) { promise.set_value(std::move(all)); };
    const Submission submission = service.submit(questions[which].request, std::move(callbacks));
    if (i == 0) all_asked.count_down();
    if (submission.admission == Admission::kAccepted) answers[which] = promise.get_future().get();
  }
}

}  // namespace

// The value: how many threads ask a service at the same time, each all of the corpus.
Result<void> run_in_service(Trial& trial) {
  const auto clients = static_cast<size_t>(trial.number());
  ServiceOptions options;
  options.engine = trial.options();
  options.engine.async_scheduling = true;
  options.engine.max_batch = 16;
  EADEM_ASSIGN_OR_RETURN(const auto service, Service::open(options));
  trial.count("engines");
  std::vector<std::vector<std::vector<Completion>>> answers(clients);
  std::vector<std::thread> threads;
  std::latch all_asked(trial.questions().empty() ? 0 : trial.number());
  for (size_t client = 0; client < clients; ++client) {
    answers[client].resize(trial.questions().size());
    threads.emplace_back([&, client] { ask_in_turn(*service, trial.questions(), client, all_asked, answers[client]); });
  }
  for (std::thread& thread : threads) thread.join();
  trial.count("clients", static_cast<int64_t>(clients));
  const Counters counters = service->stats().counters;
  accept::count(trial.facts(), {}, counters);
  trial.at_least("most_running", static_cast<int64_t>(counters.max_sequences));
  for (const auto& of_client : answers) {
    for (size_t i = 0; i < of_client.size(); ++i) {
      if (of_client[i].empty() || of_client[i].front().finish_reason == FinishReason::kError)
        return Error{"the service gave no answer to " + trial.questions()[i].id};
      EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], of_client[i].front()));
    }
  }
  return {};
}

bool is_delivery(std::string_view value) { return value == "whole" || value == "streamed"; }

namespace {

struct Served {
  black_box::AnswerReader reader;
  black_box::EventStream events;
  std::string body, fault;
  int64_t pieces = 0;

  Result<void> add_event(const std::string& data) {
    ++pieces;
    if (data == "[DONE]") return {};
    const auto added = reader.add(data);
    return added.ok() ? Result<void>() : Result<void>(added.error());
  }
};

ordered_json body_of(const Question& question, bool streams) {
  ordered_json body = api::to_json(question.request.sampling);
  body["prompt"] = question.request.prompt_token_ids;
  body["return_token_ids"] = true;
  if (question.request.sampling.prompt_logprobs < 0) body.erase("prompt_logprobs");
  if (streams) body["stream"] = true;
  return body;
}

// Sends every question at once.
Result<std::vector<std::unique_ptr<Served>>> call_all(Trial& trial, const std::string& address, Child& child) {
  const bool streams = trial.value() == "streamed";
  EADEM_ASSIGN_OR_RETURN(const auto calls, fetch::HttpCalls::create());
  std::vector<std::unique_ptr<Served>> all;
  for (const Question& question : trial.questions()) {
    auto served = std::make_unique<Served>();
    Served* const one = served.get();
    fetch::HttpCall call;
    call.url = address + "/v1/completions";
    call.headers = {"Content-Type: application/json"};
    const char* const key = std::getenv("EADEM_API_KEY");  // the server has it, too
    if (key != nullptr && *key != '\0') call.headers.push_back("Authorization: Bearer " + std::string(key));
    call.body = body_of(question, streams).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    call.stall_seconds = call.total_seconds = kProcessSeconds;
    const auto piece = [one, streams](std::string_view bytes) {
      if (!streams) return one->body += bytes, true;
      const auto status = one->events.add(bytes, [one](const std::string& data) { return one->add_event(data); });
      if (!status.ok()) one->fault = status.error().message;
      return status.ok();
    };
    calls->add(std::move(call), piece, [one, id = question.id](const fetch::CallReply& reply) {
      if (!reply.ok() && one->fault.empty())
        one->fault = id + ": status " + std::to_string(reply.status) + " " + reply.detail + " " +
                     black_box::error_message(reply.error_text);
    });
    all.push_back(std::move(served));
  }
  while (calls->running() > 0) {
    if (trial.lab().workshop().interrupted()) return Error{"interrupted"};
    if (!child.running()) return Error{"the server ended while it was asked"};
    calls->poll(0.2);
  }
  return all;
}

Result<void> hold_reply(Trial& trial, const Question& question, Served& served) {
  if (!served.fault.empty()) return Error{served.fault};
  if (trial.value() == "whole") {
    const auto added = served.reader.add(served.body);
    if (!added.ok()) return Error{added.error()};
  }
  EADEM_ASSIGN_OR_RETURN(const black_box::Answer answer, served.reader.finish());
  if (answer.choices.size() != 1) return Error{question.id + ": the reply has no single choice"};
  const black_box::Choice& choice = answer.choices.front();
  EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(question.request));
  const ordered_json before = trial.json_of(question.request, was->front());
  ordered_json expected = ordered_json::object(), is = ordered_json::object();
  for (const char* field : {"token_ids", "logprobs", "text", "finish_reason"}) expected[field] = before[field];
  is["token_ids"] = choice.token_ids;
  is["logprobs"] = choice.logprobs;
  is["text"] = choice.text;
  is["finish_reason"] = choice.finish_reason;
  trial.hold(question.id, expected, is, question.level);
  trial.count("http_replies");
  trial.count("http_events", served.pieces);
  return {};
}

}  // namespace

// `eadem serve` in a process of its own, asked over HTTP for everything at once.
Result<void> run_over_http(Trial& trial) {
  if (!has_program(trial)) return {};
  EADEM_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make());
  std::vector<std::string> arguments = {
      "serve", "--port", "0", "--ready-file", folder.file("ready"), "--no-log-requests", "--generation-config", "vllm"};
  const auto engine = engine_arguments(trial.options());
  arguments.insert(arguments.end(), engine.begin(), engine.end());
  const Workshop& workshop = trial.lab().workshop();
  EADEM_ASSIGN_OR_RETURN(Child child, Child::start(workshop.program, arguments, folder));
  const auto ready = [&] { return std::filesystem::exists(folder.file("ready")); };
  EADEM_RETURN_IF_ERROR(child.wait(kProcessSeconds, workshop.interrupted, ready));
  if (!ready()) {
    EADEM_RETURN_IF_ERROR(child.check());
    return Error{"the server ended before it was ready"};
  }
  trial.count("processes");
  std::string address;
  std::ifstream(folder.file("ready")) >> address;
  EADEM_ASSIGN_OR_RETURN(auto replies, call_all(trial, address, child));
  for (size_t i = 0; i < replies.size(); ++i)
    EADEM_RETURN_IF_ERROR(hold_reply(trial, trial.questions()[i], *replies[i]));
  return child.end(60.0);
}

bool is_trace(std::string_view value) { return value == "written"; }

// With every intermediate result looked at.
Result<void> run_traced(Trial& trial) {
  EADEM_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make());
  trial.options().trace_file = folder.file("trace");
  {
    EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
    EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, trial.requests()));
    EADEM_RETURN_IF_ERROR(engine.finish_trace());
    for (size_t i = 0; i < answers.size(); ++i)
      EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], answers[i].front()));
  }
  std::ifstream file(folder.file("trace"));
  for (std::string line; std::getline(file, line);) trial.count("trace_lines");
  return {};
}

}  // namespace eadem::audit::accept
