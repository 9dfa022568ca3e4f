#include "cli/receipt_flags.h"

#include <filesystem>
#include <fstream>

#include "api/receipts.h"

namespace eadem::cli {
namespace {

constexpr std::string_view kBegin = "{\"payload\":\"";

// Bytes of whole receipts at the beginning of the file: what an interrupted write left behind them goes.
Result<uint64_t> whole_lines(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return uint64_t{0};
  std::string head(kBegin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  if (head != kBegin.substr(0, head.size())) {
    return Error{"--receipt: " + path + " holds something else than receipts; name another file"};
  }
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path));
  uint64_t whole = 0;
  for (std::string line; reader.next(line);) {
    if (reader.ended_by_newline()) whole = reader.bytes();
  }
  return whole;
}

}  // namespace

Result<ReceiptWriter> ReceiptWriter::open(const std::string& path, contract::SigningKey key,
                                          contract::ReceiptContent content, bool overwrite) {
  EADEM_ASSIGN_OR_RETURN(const uint64_t whole, whole_lines(path));
  EADEM_ASSIGN_OR_RETURN(LineWriter file, LineWriter::open(path));
  EADEM_RETURN_IF_ERROR(file.keep(overwrite ? 0 : whole));
  return ReceiptWriter(std::move(file), std::move(key), content);
}

Result<void> ReceiptWriter::write(const Engine& engine, const Request& request, const Completion& answer) {
  if (!api::has_receipt(answer)) return {};
  return file_.write(contract::seal_receipt(api::make_receipt(engine, request, answer), content_, key_) + "\n");
}

void ReceiptFlags::add(Flags& flags) {
  flags.text("--receipt", "FILE", "append a signed receipt of each answer, one a line; needs --key", &file);
  flags.text("--key", "FILE", "the private key that signs (`eadem keygen` makes one)", &key);
  flags.option("--receipt-content", "full|hashes",
               "full: prompt, parameters and output tokens; hashes: only their digests [full]",
               [this](const std::string& value) -> Result<void> {
                 if (value != "full" && value != "hashes") return Error{"full or hashes"};
                 content = value == "full" ? contract::ReceiptContent::kFull : contract::ReceiptContent::kHashes;
                 return {};
               });
}

Result<std::optional<contract::SigningKey>> ReceiptFlags::load_key() const {
  using Signer = std::optional<contract::SigningKey>;
  if (file.empty() != key.empty()) return Error{"--receipt FILE and --key FILE go together: give both or none"};
  if (!wanted()) return Signer();
  if (file == "-") return Error{"--receipt: name a file; the answers go to stdout"};
  EADEM_ASSIGN_OR_RETURN(contract::SigningKey signer, contract::SigningKey::load(key));
  return Signer(std::move(signer));
}

Result<std::optional<ReceiptWriter>> ReceiptFlags::open(const Engine& engine,
                                                        std::optional<contract::SigningKey> signer,
                                                        bool overwrite) const {
  using Writer = std::optional<ReceiptWriter>;
  if (!signer) return Writer();
  EADEM_RETURN_IF_ERROR(api::check_receipts(engine.info()));
  EADEM_ASSIGN_OR_RETURN(ReceiptWriter writer, ReceiptWriter::open(file, *std::move(signer), content, overwrite));
  return Writer(std::move(writer));
}

}  // namespace eadem::cli
