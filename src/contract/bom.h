// The long form of a fingerprint: a CycloneDX 1.7 bill of materials (ECMA-424) of what answers are made with. The same
// fingerprint gives the same bytes: it has no time of its own, and its serial number is made of the digests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "contract/deployment.h"
#include "contract/digest_cache.h"
#include "contract/identity.h"
#include "core/mapped_file.h"

namespace eadem::contract {

struct BomFile {
  std::string name;  // without its folder
  uint64_t bytes = 0;
  std::string sha256;  // of the whole file: what model hubs publish
};

struct BomModel {
  std::string name, family, licence;  // licence: as the model file states it; empty where it does not
  std::vector<std::pair<std::string, std::string>> facts;  // name and value: layers, context, ...
  std::vector<BomFile> files;
};

// The files that a checkpoint maps. Reads them whole, unless the cache knows their digests.
std::vector<BomFile> bom_files(const std::vector<MappedFile>& files, DigestCache& cache);

// JSON text. Texts that are not UTF-8 get replacement characters.
std::string bill_of_materials(const Identity& identity, const Deployment& deployment, const BomModel& model);

}  // namespace eadem::contract
