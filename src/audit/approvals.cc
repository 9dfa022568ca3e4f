#include "audit/approvals.h"

#include <filesystem>
#include <fstream>

#include "audit/files.h"
#include "contract/dsse.h"
#include "contract/statement.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{64} << 20;

ordered_json predicate_of(const Approval& approval) {
  ordered_json answers = ordered_json::object();
  for (const auto& [name, change] : approval.answers) answers[name] = {{"was", change.was}, {"is", change.is}};
  return {{"signer", approval.signer},
          {"date", approval.date},
          {"reason", approval.reason},
          {"from", approval.from},
          {"to", approval.to},
          {"identity_from", approval.identity_from},
          {"identity_to", approval.identity_to},
          {"answers", std::move(answers)}};
}

// Throws where a field is missing or of another type.
void read_predicate(const ordered_json& predicate, Approval& approval) {
  approval.signer = predicate.at("signer").get<std::string>();
  approval.date = predicate.at("date").get<std::string>();
  approval.reason = predicate.at("reason").get<std::string>();
  approval.from = predicate.at("from").get<std::string>();
  approval.to = predicate.at("to").get<std::string>();
  approval.identity_from = predicate.at("identity_from").get<std::string>();
  approval.identity_to = predicate.at("identity_to").get<std::string>();
  const ordered_json& answers = predicate.at("answers");
  if (!answers.is_object()) throw std::domain_error("answers");
  for (const auto& [name, change] : answers.items()) {
    approval.answers[name] = {change.at("was").get<std::string>(), change.at("is").get<std::string>()};
  }
}

// The first fault that an envelope has with every key; none where one of them made it.
std::string check(const contract::Envelope& envelope, const std::vector<contract::VerifyingKey>& trusted) {
  std::string fault = "its key " + envelope.signatures.front().key_id +
                      " is not trusted: name the signer's public key with --trusted-key";
  for (const contract::VerifyingKey& key : trusted) {
    const auto found = contract::check_seal(envelope, contract::kStatementPayload, key);
    if (found == contract::SealFault::kNone) return {};
    if (found == contract::SealFault::kBadSignature) fault = "its signature is bad: it was changed after it was signed";
    if (found == contract::SealFault::kOtherType) fault = "it is sealed as something else than a statement";
  }
  return fault;
}

Approval read_line(const std::string& line, const std::vector<contract::VerifyingKey>& trusted) {
  Approval approval;
  const auto envelope = contract::parse_envelope(line);
  if (!envelope.ok()) {
    approval.fault = envelope.error().message;
    return approval;
  }
  approval.key_id = envelope.value().signatures.front().key_id;
  const auto statement = contract::parse_statement(envelope.value().payload);
  if (!statement.ok() || statement.value().predicate_type != kApprovalType) {
    approval.fault = statement.ok() ? "it is a statement of another kind" : statement.error().message;
    return approval;
  }
  try {
    read_predicate(statement.value().predicate, approval);
    approval.fault = check(envelope.value(), trusted);
  } catch (const std::exception&) {
    approval.fault = "it misses a field, or has one of another type";
  }
  return approval;
}

}  // namespace

std::string approvals_path(const std::string& baseline_path) {
  return (std::filesystem::path(baseline_path).parent_path() / "approvals.jsonl").string();
}

Result<std::vector<Approval>> read_approvals(const std::string& path, const std::string& baseline_digest,
                                             const std::vector<contract::VerifyingKey>& trusted) {
  std::vector<Approval> approvals;
  if (!std::filesystem::exists(path)) return approvals;
  auto text = read_whole_file(path, kMostBytes);
  if (!text.ok()) return Error{path + " " + text.error().message};
  std::string_view rest = text.value();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Approval approval = read_line(line, trusted);
    // Of what cannot be read nobody knows which baseline it is of.
    if (approval.from.empty() || approval.from == baseline_digest) approvals.push_back(std::move(approval));
  }
  return approvals;
}

Result<void> append_approval(const std::string& path, const Approval& approval, const contract::SigningKey& key) {
  const std::vector<contract::Subject> subjects = {{"baseline", {{"blake3", approval.from}}},
                                                   {"results", {{"blake3", approval.to}}}};
  const std::string envelope = contract::seal(
      contract::kStatementPayload, contract::statement(subjects, kApprovalType, predicate_of(approval)), key);
  std::string before;
  if (std::filesystem::exists(path)) {
    auto text = read_whole_file(path, kMostBytes);
    if (!text.ok()) return Error{path + " " + text.error().message};
    before = std::move(text).value();
    if (!before.empty() && before.back() != '\n') before += '\n';
  }
  return write_whole_file(path, before + envelope + "\n");
}

}  // namespace eadem::audit
