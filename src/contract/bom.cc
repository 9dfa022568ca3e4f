#include "contract/bom.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "contract/build_info.h"
#include "contract/canonical_json.h"
#include "core/check.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

constexpr size_t kPiece = size_t{1} << 26;  // bytes that are hashed before their pages are given back

std::string sha256_of(const MappedFile& file) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EADEM_CHECK(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (size_t at = 0; at < file.size(); at += kPiece) {
    const auto piece = file.bytes().subspan(at, std::min(kPiece, file.size() - at));
    EADEM_CHECK(EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1);
    file.release(piece.data(), piece.size());
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EADEM_CHECK(EVP_DigestFinal_ex(context.get(), digest, &size) == 1 && size == 32);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

ordered_json property(const std::string& name, const ordered_json& value) {
  return {{"name", "eadem:" + name}, {"value", value.is_string() ? value.get<std::string>() : value.dump()}};
}

// One property for each member, "eadem:PREFIX:KEY".
ordered_json properties(const std::string& prefix, const ordered_json& object) {
  ordered_json list = ordered_json::array();
  for (const auto& [key, value] : object.items()) list.push_back(property(prefix + ":" + key, value));
  return list;
}

ordered_json hash(const char* algorithm, const std::string& digest) {
  return ordered_json::array({{{"alg", algorithm}, {"content", digest}}});
}

ordered_json library(const BuiltWith& built) {
  ordered_json component = {{"type", "library"},
                            {"bom-ref", built.purl},
                            {"name", built.name},
                            {"version", built.version},
                            {"purl", built.purl}};
  component["licenses"] = ordered_json::array({{{"expression", built.licence}}});
  return component;
}

ordered_json program(const Deployment& deployment, const std::string& digest) {
  ordered_json component = {{"type", "application"},
                            {"bom-ref", "eadem"},
                            {"name", "eadem"},
                            {"version", deployment.version},
                            {"description", "Language model inference whose output is a function of the request"}};
  component["licenses"] = ordered_json::array({{{"expression", "Apache-2.0"}}});
  component["properties"] = properties("deployment", deployment.to_json());
  component["properties"].push_back(property("deployment-digest", digest));
  return component;
}

ordered_json model_card(const BomModel& model) {
  const ordered_json tokens = ordered_json::array({{{"format", "text, or token ids"}}});
  ordered_json card;
  card["modelParameters"] = {{"task", "text-generation"},
                             {"architectureFamily", "transformer"},
                             {"modelArchitecture", model.family},
                             {"inputs", tokens},
                             {"outputs", tokens}};
  card["properties"] = ordered_json::array();
  for (const auto& [name, value] : model.facts) card["properties"].push_back(property("model:" + name, value));
  return card;
}

ordered_json model_component(const Identity& identity, const BomModel& model) {
  ordered_json component = {{"type", "machine-learning-model"},
                            {"bom-ref", "model"},
                            {"name", model.name},
                            {"description",
                             "The hash is over the name, dtype, shape and bytes of each tensor, by name, so that it is "
                             "the same however they lie in files; the files have hashes of their own"},
                            {"hashes", hash("BLAKE3", identity.weights)}};
  if (!model.licence.empty()) {
    component["licenses"] = ordered_json::array({{{"license", {{"name", model.licence}}}}});
  }
  component["modelCard"] = model_card(model);
  component["components"] = ordered_json::array();
  for (size_t i = 0; i < model.files.size(); ++i) {
    const BomFile& file = model.files[i];
    component["components"].push_back({{"type", "file"},
                                       {"bom-ref", "model-file-" + std::to_string(i + 1)},
                                       {"name", file.name},
                                       {"hashes", hash("SHA-256", file.sha256)},
                                       {"properties", ordered_json::array({property("bytes", file.bytes)})}});
  }
  return component;
}

ordered_json data_component(const char* name, const char* description, const std::string& digest) {
  return {{"type", "data"},
          {"bom-ref", name},
          {"name", name},
          {"description", description},
          {"hashes", hash("BLAKE3", digest)}};
}

// RFC 9562, version 8: a name made of digests rather than of chance.
std::string serial_number(const std::string& identity, const std::string& deployment) {
  std::string hex = canonical_digest(identity + deployment).substr(0, 32);
  hex[12] = '8';
  hex[16] = "89ab"[hex[16] & 3];
  for (const size_t at : {20, 16, 12, 8}) hex.insert(at, "-");
  return "urn:uuid:" + hex;
}

ordered_json dependencies(const ordered_json& components) {
  ordered_json of_program = ordered_json::array();
  for (const ordered_json& component : components) {
    if (component["type"] != "data") of_program.push_back(component["bom-ref"]);
  }
  return ordered_json::array({{{"ref", "eadem"}, {"dependsOn", of_program}},
                              {{"ref", "model"}, {"dependsOn", {"configuration", "tokenizer", "chat-template"}}}});
}

// How answers are formed of these parts: what the identity says of it.
ordered_json formulation(const Identity& identity, const std::string& digest) {
  ordered_json formula = {{"bom-ref", "inference"}};
  formula["properties"] = ordered_json::array({property("identity-digest", digest)});
  const ordered_json parts = ordered_json::parse(identity.canonical());
  for (const ordered_json& part : properties("identity", parts)) formula["properties"].push_back(part);
  const bool free = identity.numerics.ends_with("-free");
  formula["properties"].push_back(
      property("promise", free ? "none: sums are taken in whatever order suits batch and threads"
                               : "equal identity, prompt token ids, seed and sampling give equal bits"));
  return ordered_json::array({formula});
}

}  // namespace

std::vector<BomFile> bom_files(const std::vector<MappedFile>& files, DigestCache& cache) {
  std::vector<BomFile> result;
  for (const MappedFile& file : files) {
    result.push_back({file.path().filename().string(), file.size(),
                      cache.of("sha256", {file.path()}, [&] { return sha256_of(file); })});
  }
  return result;
}

std::string bill_of_materials(const Identity& identity, const Deployment& deployment, const BomModel& model) {
  const std::string of_identity = identity.digest(), of_deployment = deployment.digest();
  ordered_json components = ordered_json::array();
  components.push_back(model_component(identity, model));
  components.push_back(data_component("configuration", "The model's description of itself", identity.config));
  components.push_back(data_component("tokenizer", "The tokenizer's vocabulary and rules", identity.tokenizer));
  components.push_back(data_component("chat-template", "How messages become a prompt", identity.chat_template));
  for (const BuiltWith& built : build_info().libraries) components.push_back(library(built));
  const ordered_json bom = {{"$schema", "http://cyclonedx.org/schema/bom-1.7.schema.json"},
                            {"bomFormat", "CycloneDX"},
                            {"specVersion", "1.7"},
                            {"serialNumber", serial_number(of_identity, of_deployment)},
                            {"version", 1},
                            {"metadata", {{"component", program(deployment, of_deployment)}}},
                            {"components", components},
                            {"dependencies", dependencies(components)},
                            {"formulation", formulation(identity, of_identity)}};
  return bom.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace eadem::contract
