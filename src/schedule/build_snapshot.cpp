// The snapshot of a checkpoint that is written while steps go on: each rank's share of master and moments, copied to
// the host between two steps. The segment's border is where the copies are waited for.
#include "schedule/builder.hpp"

namespace tessera {

SegmentId Builder::snapshot() {
  open_segment(SegmentRole::snapshot, "snapshot");
  for (UnitId unit = 0; unit < static_cast<UnitId>(s_.layout.units.size()); ++unit) {
    const auto index = static_cast<std::size_t>(unit);
    Operation op;
    op.kind = OperationKind::store;
    op.lane = Lane::store;
    op.unit = unit;
    read(op, master(unit));
    read(op, current(moments_[index]));
    // Ranks that hold the same slice share it, so that every element is stored once: master, then both moments.
    Value copy;
    copy.kind = ValueKind::snapshot;
    copy.unit = unit;
    copy.dtype = DType::fp32;
    copy.elements = 3 * s_.unit(unit).share(s_.grid.world());
    copy.split = groups({Group::shard, Group::replica});
    write_local(op,
                {"snapshot " + s_.unit(unit).name, copy.elements * size_of(copy.dtype), RegionKind::at_rest,
                 Place::host, Category::optimizer_state, true, true},
                copy);
    emit(std::move(op));
  }
  return close_segment();
}

}  // namespace tessera
