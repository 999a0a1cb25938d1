"""Sentences for the steps of moves, creates and deletes; other steps show their name in words.

They have no subject, which is the run: "copies the disks to the target".
"""

from typing import Literal

# fmt: off
SENTENCES: dict[str, tuple[str, str]] = {
    # Step: what it does, what its undo does.
    "book_larger": ("counts the larger flavor in the quota", "counts the old flavor again"),
    "lock": ("locks the server", "unlocks the server as it was"),
    "lock_migrating": ("locks the server", "unlocks the server as it was"),
    "lock_shelved": ("locks the shelved server", "unlocks the shelved server"),
    "choose_target": ("chooses the target host", ""),
    "choose_anew": ("chooses the target host again", ""),
    "hold_source": ("keeps the source's claim for the move", "returns the source's claim to the server"),
    "claim_target": ("claims resources of the target", "releases the target's resources"),
    "copy_to_target": ("copies the record to the target's cell", "deletes the copy of the record"),
    "claim_devices": ("claims PCI devices of the target", "releases the target's PCI devices"),
    "bind_target": ("binds the ports to the target too", "deletes the target's port bindings"),
    "bind_anew": ("binds the ports to the target", "binds the ports to no host"),
    "attach_target": ("attaches the volumes to the target too", "deletes the target's attachments"),
    "connect_target": ("connects the volumes to the target", ""),
    "prepare_target": ("reserves the guest's place on the target", "gives up the guest's place on the target"),
    "stop_on_source": ("stops the guest on the source", "starts the guest on the source as before"),
    "leave_volumes": ("leaves the volumes to a later step", "gives the source its volumes back"),
    "leave_ports": ("leaves the ports to a later step", "gives the source its ports back"),
    "carry_disk": ("copies the disks to the target", "deletes the disks on the target"),
    "build_disk": ("makes the disks", "deletes the disks"),
    "fetch_shelved": ("makes the disks from the shelved images", "deletes the disks on the target"),
    "drop_parcel": ("deletes the disks' transfer images", ""),
    "hand_over": ("connects the volumes to the target", ""),
    "activate_target": ("switches the network to the target", "switches the network to the source"),
    "activate_arrived": ("switches the network to the target", ""),
    "activate": ("activates the ports", ""),
    "start_on_target": ("starts the guest on the target", "destroys the guest on the target"),
    "complete_target": ("completes the volume attachments", ""),
    "switch_home": ("records the target as the server's host", "records the source as the server's host"),
    "move_home": ("moves the record to the target's cell", ""),
    "await_verdict": ("waits to be confirmed or reverted", "shows that the move is reverted"),
    "destroy_on_source": ("destroys the guest on the source", ""),
    "unbind_source": ("deletes the source's port bindings", ""),
    "release_old_devices": ("releases the source's PCI devices", ""),
    "release_source": ("releases the source's resources", ""),
    "release_reserved": ("deletes attachments without a host", ""),
    "erase_at_source": ("deletes the record of the source's cell", ""),
    "book_new": ("counts the new flavor in the quota", ""),
    "unlock_resized": ("unlocks the server", ""),
    "unlock_evacuated": ("unlocks the server", ""),
    "unlock": ("unlocks the server", ""),
    "settle_unshelved": ("unlocks the server", ""),
    "record_host": ("records the target as the server's host", ""),
    "check_images": ("checks the shelved images", ""),
    "drop_images": ("deletes the shelved images", ""),
    "examine_source": ("asks what the guest needs of a target", ""),
    "check_fit": ("asks the target if it can run the guest", ""),
    "draw_ticket": ("takes a place in the queue", ""),
    "await_turn": ("waits for other live migrations", ""),
    "receive": ("prepares the target to receive the guest", ""),
    "transfer": ("transfers the running guest", "keeps the guest on the source"),
    "show_post_copy": ("shows that the guest is handed over", ""),
    "settle_arrival": ("makes the arrived guest permanent", ""),
    "detach_source": ("deletes the source's attachments", ""),
    "find_evidence": ("looks for evidence of the guest's death", ""),
    "start_evacuated": ("starts the guest on the target", "removes the guest from the target"),
    "arrive": ("records the target as the server's host", ""),
    "greet": ("accepts the new server", "records why there is no server"),
    "trust_host": ("trusts the host", "counts a failed build of the host"),
    "place": ("puts the record into the host's cell", "takes the record out of the cell"),
    "make_ports": ("makes the ports", "deletes the ports that it made"),
    "learn_nics": ("reads the server's ports", ""),
    "make_volumes": ("makes the volumes", "deletes the volumes that it made"),
    "learn_volumes": ("reads the server's volumes", ""),
    "reserve_volumes": ("reserves the volumes", ""),
    "mark_deleting": ("marks the server as deleting", ""),
    "destroy_guest": ("destroys the guest", ""),
    "let_go_volumes": ("detaches the volumes", ""),
    "let_go_ports": ("releases the ports", ""),
    "release_devices": ("releases the PCI devices", ""),
    "release_server": ("releases the server's resources", ""),
    "close_record": ("marks the record as deleted", ""),
    "erase_entry": ("removes the server from the directory", ""),
}
# fmt: on


def sentence_of(step: str, way: Literal["do", "undo"] = "do") -> str:
    """Return what a step does, or its undo; the name in words if there is no sentence."""
    done, undone = SENTENCES.get(step, ("", ""))
    if way == "undo":
        return undone or f"undoes: {done or _words(step)}"
    return done or _words(step)


def _words(step: str) -> str:
    return step.replace("_", " ")
