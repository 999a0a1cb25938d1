"""The settings of the services: small processes, no limits, and events to the compute service of the catalog.

Ports are bound by Neutron's Open vSwitch driver; volumes are files of Cinder's NFS driver; images are files.
"""

from tests.openstack.place import HOST, PHYSICAL_NETWORK, RABBITMQ, REGION, SHARES, Place

CLOUDS = {
    "admin": ("admin", "admin"),
    "demo": ("demo", "demo"),
    "demo-admin": ("admin", "demo"),
    "service": ("whimbrel", "service"),
}
"""Name in clouds.yaml -> user and project."""

SHIMS = {
    # cinder-volume checks that this is installed; the share is mounted before it starts.
    "mount.nfs": "#!/bin/sh\nexit 0\n",
    # It asks for root through sudo and rootwrap; nothing that it does here needs it.
    "sudo": (
        '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
        'case ${1##*/} in cinder-rootwrap) shift 2 ;; esac\nexec "$@"\n'
    ),
}


def write(place: Place) -> None:
    """Write all settings, and the directories that they name."""
    for name in ("images", "staging", "locks", "mounts", "conversion", "shims", "logs"):
        (place.data / name).mkdir(parents=True, exist_ok=True)
    for share in SHARES.values():
        place.share(share).mkdir(parents=True, exist_ok=True)
    texts = {
        "keystone": _keystone(place),
        "glance": _glance(place),
        "neutron": _neutron(place),
        "cinder": _cinder(place),
        "placement": _placement(place),
    }
    for service, text in texts.items():
        file = place.settings(service)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for share in SHARES.values():
        (place.etc / "cinder" / share).write_text(f"{HOST}:/{share}\n")
    for name, text in SHIMS.items():
        shim = place.data / "shims" / name
        shim.write_text(text)
        shim.chmod(0o755)
    place.clouds.write_text("clouds:\n" + "".join(_cloud(place, *each) for each in CLOUDS.items()))


def _cloud(place: Place, name: str, login: tuple[str, str]) -> str:
    user, project = login
    auth = f"auth_url: {place.keystone}, username: {user}, password: {place.password}, project_name: {project}"
    domains = "user_domain_id: default, project_domain_id: default"
    return f"  {name}: {{region_name: {REGION}, auth: {{{auth}, {domains}}}}}\n"


def _login(place: Place, user: str) -> str:
    return f"""\
auth_type = password
auth_url = {place.keystone}
username = {user}
password = {place.password}
project_name = service
user_domain_id = default
project_domain_id = default
region_name = {REGION}
"""


def _common(place: Place, service: str, section: str = "database") -> str:
    """Return what all services but Keystone have."""
    return f"""
[{section}]
connection = {place.database(service)}
max_pool_size = 4
max_overflow = 4
[oslo_concurrency]
lock_path = {place.data}/locks
[keystone_authtoken]
www_authenticate_uri = {place.keystone}
service_token_roles = service
service_token_roles_required = true
{_login(place, service)}"""


def _keystone(place: Place) -> str:
    return f"""\
[database]
connection = {place.database("keystone")}
[identity]
password_hash_rounds = 4
[token]
provider = fernet
[fernet_tokens]
key_repository = {place.data}/fernet
[credential]
key_repository = {place.data}/credential
[cache]
enabled = true
backend = dogpile.cache.memory
"""


def _glance(place: Place) -> str:
    return f"""\
[DEFAULT]
enabled_backends = files:file
node_staging_uri = file://{place.data}/staging
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {place.data}/images
[os_glance_staging_store]
filesystem_store_datadir = {place.data}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {place.data}/tasks
[paste_deploy]
flavor = keystone
config_file = {place.venv}/etc/glance/glance-api-paste.ini
{_common(place, "glance")}"""


def _neutron(place: Place) -> str:
    return f"""\
[DEFAULT]
host = {HOST}
state_path = {place.data}
transport_url = {RABBITMQ}
core_plugin = ml2
service_plugins = router,qos,placement,segments,trunk
api_paste_config = {place.venv}/etc/neutron/api-paste.ini
auth_strategy = keystone
dhcp_agent_notification = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
send_events_interval = 1
agent_down_time = 3600
api_workers = 0
rpc_workers = 1
rpc_state_report_workers = 0
[quotas]
default_quota = -1
quota_port = -1
[ml2]
type_drivers = flat,vlan,vxlan
tenant_network_types = vxlan
mechanism_drivers = openvswitch
extension_drivers = port_security,qos
[ml2_type_flat]
flat_networks = {PHYSICAL_NETWORK}
[ml2_type_vlan]
network_vlan_ranges = {PHYSICAL_NETWORK}:100:199
[ml2_type_vxlan]
vni_ranges = 1:1000
{_common(place, "neutron")}
[nova]
{_login(place, "nova")}
[placement]
{_login(place, "placement")}"""


def _cinder(place: Place) -> str:
    return f"""\
[DEFAULT]
host = volumes
state_path = {place.data}/cinder
transport_url = {RABBITMQ}
auth_strategy = keystone
api_paste_config = {place.venv}/etc/cinder/api-paste.ini
resource_query_filters_file = {place.venv}/etc/cinder/resource_filters.json
rootwrap_config = {place.venv}/etc/cinder/rootwrap.conf
enabled_backends = {",".join(SHARES)}
default_volume_type = shared
image_conversion_dir = {place.data}/conversion
service_down_time = 3600
{_backend(place, "nfs", "cinder.volume.drivers.nfs.NfsDriver")}
{_backend(place, "growing", "growing_nfs.GrowingNfsDriver")}
[glance]
glance_api_servers = {place.url("glance")}
[privsep_osbrick]
helper_command = {place.program("privsep-helper")} --config-file {place.settings("cinder")}
{_common(place, "cinder")}
[service_user]
send_service_user_token = true
{_login(place, "cinder")}
[nova]
token_auth_url = {place.keystone}
{_login(place, "nova")}"""


def _backend(place: Place, name: str, driver: str) -> str:
    return f"""\
[{name}]
volume_driver = {driver}
volume_backend_name = {name}
nfs_shares_config = {place.etc}/cinder/{SHARES[name]}
nfs_mount_point_base = {place.data}/mounts
nfs_snapshot_support = true
nas_secure_file_operations = false
nas_secure_file_permissions = false"""


def _placement(place: Place) -> str:
    return f"[api]\nauth_strategy = keystone\n{_common(place, 'placement', 'placement_database')}"
