// Receipts of the answers that a command gives: the flags, and the file that they go to.
#pragma once

#include <optional>
#include <string>

#include "cli/flags.h"
#include "cli/jsonl.h"
#include "contract/receipt.h"
#include "eadem/engine.h"

namespace eadem::cli {

// Appends a receipt for each answer to a file, one a line.
class ReceiptWriter {
 public:
  // Errors: the file cannot be written, or holds something else than receipts.
  static Result<ReceiptWriter> open(const std::string& path, contract::SigningKey key, contract::ReceiptContent content,
                                    bool overwrite);

  // Nothing for an answer that was stopped. `request` as submitted.
  Result<void> write(const Engine& engine, const Request& request, const Completion& answer);

 private:
  ReceiptWriter(LineWriter file, contract::SigningKey key, contract::ReceiptContent content)
      : file_(std::move(file)), key_(std::move(key)), content_(content) {}

  LineWriter file_;
  contract::SigningKey key_;
  contract::ReceiptContent content_;
};

struct ReceiptFlags {
  std::string file, key;
  contract::ReceiptContent content = contract::ReceiptContent::kFull;

  void add(Flags& flags);
  bool wanted() const { return !file.empty(); }
  // Faults of the flags and of the key, before a model is loaded. Nothing where no receipts are wanted.
  Result<std::optional<contract::SigningKey>> load_key() const;
  // Errors: also an engine that gives no receipts.
  Result<std::optional<ReceiptWriter>> open(const Engine& engine, std::optional<contract::SigningKey> signer,
                                            bool overwrite) const;
};

}  // namespace eadem::cli
