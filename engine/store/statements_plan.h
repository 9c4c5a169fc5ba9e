/* Part of statements.h: what the plan of a run depends on, beside its pipeline. */
SQL(RUN_SPEC,
    "SELECT spec_hash, (SELECT count(*) FROM item_list WHERE item_list.run = run.id) FROM "
    "run WHERE id = ?")
SQL(SHIPPED_PUT, "INSERT OR REPLACE INTO shipped(run, $shipped) VALUES(:run, :$shipped)")
SQL(SHIPPED_LIST, "SELECT $shipped FROM shipped WHERE run = ? ORDER BY path")
SQL(ITEM_LIST_PUT, "INSERT OR REPLACE INTO item_list(run, $item_list) VALUES(:run, :$item_list)")
SQL(ITEM_LISTS, "SELECT $item_list FROM item_list WHERE run = ? ORDER BY no")
SQL(INST_MOVE, "UPDATE instance SET idx = ? WHERE run = ? AND idx = ?")
SQL(INST_DROP, "DELETE FROM instance WHERE run = ? AND idx = ?")
SQL(EVENTS_MOVE, "UPDATE event SET idx = ? WHERE run = ? AND idx = ?")
