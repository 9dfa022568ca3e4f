// Any bytes as a receipt, in its envelope and out of it: an error of one short line, or a receipt that is written and
// read back as the same.
#include "audit/verify.h"
#include "consume.h"

namespace {

using namespace eadem;

void read(std::string_view statement) {
  const auto receipt = contract::parse_receipt(statement);
  if (!receipt.ok()) return fuzz::consume(receipt.error());
  const auto checked = contract::check_receipt(receipt.value());
  if (!checked.ok()) fuzz::consume(checked.error());
  const auto content =
      receipt.value().has_contents ? contract::ReceiptContent::kFull : contract::ReceiptContent::kHashes;
  const std::string written = contract::receipt_statement(receipt.value(), content);
  const auto again = contract::parse_receipt(written);
  EADEM_CHECK(again.ok() && contract::receipt_statement(again.value(), content) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const contract::SigningKey key = contract::SigningKey::generate();
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  const auto envelopes = audit::envelopes_of(text);
  if (!envelopes.ok()) {
    fuzz::consume(envelopes.error());
    return 0;
  }
  for (const std::string& envelope : envelopes.value()) {
    const audit::Verification open = audit::open_receipt(envelope, nullptr);
    if (open.verdict != audit::ReceiptVerdict::kOpen) fuzz::consume(Error{open.message});
    // Nobody can have signed it with a key that was made just now.
    const audit::Verification known = audit::open_receipt(envelope, &key.verifying_key());
    EADEM_CHECK(known.verdict != audit::ReceiptVerdict::kOpen);
    fuzz::consume(Error{known.message});
  }
  return 0;
}
